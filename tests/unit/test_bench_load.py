"""The load bench: its bare loop writes what the API has written, its figures are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from bench.speed.bare_commits import bare_loop, written_by
from bench.speed.load import measure_load
from bench.speed.submitters import Submitted
from store.artifacts import Artifacts
from store.opened import Store
from store.settings import Settings
from store.tables import Explanation


def test_the_bare_loop_writes_what_the_api_wrote(api: Any, tmp_path: Path) -> None:
    body = {"kind": "counterfactual", "gnn": api.gnn(), "dataset": api.dataset()}
    body |= {"graph": api.graph()}
    first = api.client.post("/v1/explanations", json=body).json()
    api.finish(first["job"]["waiting_for"])  # so that the next ones wait for nothing
    posted = [
        api.client.post("/v1/explanations", json={**body, "seed": seed}).json()
        for seed in (1, 2, 3)
    ]
    commits = written_by(api.store.settings, [one["id"] for one in posted])
    loop = bare_loop(commits, tmp_path / "bare", seconds=30)
    assert loop.count == 3
    assert 0 < loop.cpu_seconds < loop.seconds

    again = Settings(data_dir=tmp_path / "bare")
    with Store.open(again) as store:
        assert written_by(again, [one["id"] for one in posted]) == commits
        with store.database.reading() as session:
            kept = session.scalars(select(Explanation)).all()
        assert {one.id for one in kept} == {one["id"] for one in posted}
        for one in kept:
            expected = api.store.artifacts.get(one.request_digest)
            assert Artifacts(again.artifacts).get(one.request_digest) == expected


def test_a_lost_explanation_is_noticed(api: Any) -> None:
    posted = api.explanation()
    with pytest.raises(ValueError, match="not enough values"):
        written_by(api.store.settings, [posted["id"], "exp_lost"])


@given(
    latencies=st.lists(st.floats(0.001, 9), min_size=1, max_size=50),
    share=st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_numpys(latencies: list[float], share: float) -> None:
    came = Submitted(seconds=1.0, latencies=latencies, ids=[], refusals=[])
    assert came.quantile(share) == np.quantile(latencies, share, method="inverted_cdf")


@pytest.mark.slow
def test_a_short_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = measure_load(clients=4, seconds=2.0, seed=0, say=lambda *_: None)
    assert all(value is not None and value > 0 for value in section.figures.values())
    assert section.figures["submit_over_bare"] == pytest.approx(
        section.figures["submit_rps"] / section.figures["submit_bare_rps"]
    )
    assert not list(tmp_path.iterdir())
