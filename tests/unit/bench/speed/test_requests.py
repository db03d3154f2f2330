"""Benchmark of requests: library and API give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.speed.api import requests


@pytest.mark.slow
def test_small_request_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "GRAPHS", 6)
    with requests.prepared_environment(seed=0) as environment:
        assert len(environment.graphs) == 6
        section = requests.measure_environment(environment, 1, 3, lambda *_: None)
        together = requests.run_concurrently(environment, 3)
        assert together.edits == requests.run_concurrently(environment, 1).edits
        assert any(together.edits)  # equal empty answers would prove nothing
    assert section.figures.same_answers == 1.0
    assert section.figures.many_jobs_over_one > 0
    assert section.figures.library_call_ms > 0
    rates = [rate for _, rate in section.tables[0].rows]
    assert len(rates) == 4
    assert all(isinstance(rate, float) and rate > 0 for rate in rates)
    assert not list(tmp_path.iterdir())
