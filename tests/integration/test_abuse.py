"""Other clients are served during the attacks of `python -m tests.abuse`; takes some minutes."""

from __future__ import annotations

import pytest

from tests.abuse.__main__ import run
from tests.abuse.report import Report

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(900)]

MAX_BYTES = 700e6


def test_other_clients_are_served_under_attack(tmp_path):
    (tmp_path / "api").mkdir()
    report = run(tmp_path)
    print("\n".join(report.lines()))
    assert report.failed() == []
    assert report.percentile("livez") < 0.2
    assert report.percentile("others") < 2.0
    assert max(one.seconds for one in report.timed) < 10
    for attack in report.attacks:
        others = Report([attack], report.timed)
        assert others.percentile("others") < 2.0, attack.name
        assert attack.slowest < 10, attack.name
        assert attack.recovered_seconds < 5, attack.name
        assert attack.peak_tree_bytes < MAX_BYTES, attack.name
    if report.skipped:
        pytest.skip(f"some attacks were skipped: {report.skipped}")
