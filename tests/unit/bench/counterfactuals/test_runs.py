"""Runs of methods: an interrupted method goes on where it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench.counterfactuals.instances import EditableInstance
from bench.counterfactuals.runs import CounterfactualRun
from bench.gnns.target_gnns import TargetGnn, TargetMetrics
from bench.report.provenance import provenance
from d4explain.gnn.graphs import Graph
from models.graphs.edits import EditRules
from tests.unit.models.small_gnns import edge_counter, random_graph

torch.set_num_threads(1)
GRAPHS = [Graph(torch.ones(6, 1), random_graph(seed, 6).edges) for seed in range(5)]


class InterruptedRunError(Exception):
    pass


def test_an_interrupted_method_goes_on_and_gives_the_same_answers(tmp_path: Path) -> None:
    metrics = TargetMetrics(0, 0, None, "graphs", 0, 0, 0, 0, 0, 0, provenance(0))
    target = TargetGnn(edge_counter(7.5), metrics, tmp_path / "counter", cached=False)
    explained = [EditableInstance(graph, EditRules(max_ratio=1.0), False) for graph in GRAPHS]
    done: list[int] = []

    def run(cache: str, stop_at: int | None = None) -> CounterfactualRun:
        def show(_label: str, finished: int, _total: int) -> None:
            done.append(finished)
            if finished == stop_at:
                raise InterruptedRunError

        return CounterfactualRun(
            target, [], explained, budget=0, seed=0, on_progress=show, cache=tmp_path / cache
        )

    with pytest.raises(InterruptedRunError):
        run("interrupted", stop_at=3).answers("greedy")
    answers, _, _ = run("interrupted").answers("greedy")
    assert done == [1, 2, 3, 4, 5]
    whole, _, _ = run("whole").answers("greedy")
    assert [answer.found for answer in answers] == [answer.found for answer in whole]
    assert any(answer.found for answer in whole)
