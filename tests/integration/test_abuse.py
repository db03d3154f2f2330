"""Other clients are served during the attacks of `tests/abuse.py`; takes one or two minutes."""

from __future__ import annotations

import pytest

from tests import abuse

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(600)]

MAX_BYTES = 700e6


def test_other_clients_are_served_under_attack(tmp_path):
    (tmp_path / "api").mkdir()
    report = abuse.run(tmp_path)
    print("\n".join(report.lines()))
    assert report.failed() == []
    assert report.percentile("livez") < 0.2
    assert report.percentile("others") < 2.0
    assert max(one.seconds for one in report.timed) < 10
    for attack in report.attacks:
        assert attack.slowest < 10, attack.name
        assert attack.recovered_seconds < 5, attack.name
        assert attack.peak_tree_bytes < MAX_BYTES, attack.name
    if report.skipped:
        pytest.skip(f"some attacks were skipped: {report.skipped}")
