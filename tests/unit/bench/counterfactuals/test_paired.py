"""Paired comparison of two dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.__main__ import app
from bench.counterfactuals.paired import compare_dumps

ONE, TWO = [[0, 1, "add"]], [[0, 1, "add"], [1, 2, "remove"]]


def dump(folder: Path, edits: dict[str, Any], edges: int = 30, instances: int = 4) -> Path:
    folder.mkdir()
    (folder / "spec.json").write_text("{}")
    (folder / "weights.safetensors").write_bytes(b"weights")
    graphs = [{"edges": [None] * edges}] * instances
    (folder / "instances.json").write_text(json.dumps(graphs))
    (folder / "edits.json").write_text(json.dumps(edits))
    return folder


def test_the_change_is_that_of_the_smallest_answers(tmp_path: Path) -> None:
    before = dump(tmp_path / "before", {"d4": [[TWO], [TWO], [ONE], []], "greedy": [[]] * 4})
    after = dump(tmp_path / "after", {"d4": [[TWO, ONE], [TWO], [ONE], []], "search": [[]] * 4})
    [row] = compare_dumps(before, after, seed=0)
    # With 30 edges, one edit counts from 1/30 on and two from 2/30 on, of nine steps to 9/30. A
    # step from 0 to 1 is a line, so its area begins half a step before.
    one, two = 8.5 / 9, 7.5 / 9
    assert (row.method, row.instances) == ("d4", 4)
    assert row.before == pytest.approx((2 * two + one) / 4)
    assert row.after == pytest.approx((two + 2 * one) / 4)
    assert row.change == pytest.approx((one - two) / 4)
    assert row.low == 0.0
    assert row.change < row.high <= one - two
    shown = CliRunner().invoke(app, ["paired", str(before), str(after)])
    assert f"{row.change:+.4f}" in shown.output


def test_dumps_of_other_instances_are_refused(tmp_path: Path) -> None:
    before = dump(tmp_path / "before", {"d4": [[ONE]] * 4})
    after = dump(tmp_path / "after", {"d4": [[ONE]] * 3}, instances=3)
    refused = CliRunner().invoke(app, ["paired", str(before), str(after)])
    assert refused.exit_code == 2
    assert "instances.json" in refused.output
