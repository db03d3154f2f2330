"""Models as their users write them are exported by tracing, or refused by name and line."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.errors import CommandError
from d4explain.export.exporter import export
from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.explain import CounterfactualConfig, EditRules, explain
from tests.unit.d4explain.export.zoo.entries import (
    ZOO,
    Entry,
    random_graphs,
    run_original,
    trained,
)
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)

CPU = torch.device("cpu")
RTOL = {torch.float32: 1e-4, torch.float64: 1e-10}
EXPORTED = [entry for entry in ZOO if not entry.refused]
REFUSED = [entry for entry in ZOO if entry.refused]
GRAPHS = 50
PAGE = (Path(__file__).parents[4] / "docs" / "zoo.md").read_text()


def by_number(entry: Entry) -> str:
    return f"{entry.number}-{entry.name}"


def exported(entry: Entry, folder: Path, model: torch.nn.Module | None = None) -> Gnn:
    """Exports the model and loads the files as a worker does."""
    files = export(model or trained(entry), folder, output=entry.output)
    gnn = Gnn(spec_from_document(parse_spec(json.loads(files.spec.read_text())))).eval()
    gnn.load_state_dict(load_file(files.weights))
    return gnn


def probabilities(logits: Tensor) -> Tensor:
    """Models return logits or log-probabilities; both have these probabilities."""
    return logits.softmax(dim=1)


def assert_same(actual: Tensor, original: Tensor) -> None:
    rtol = RTOL[original.dtype]
    scale = max(1.0, float(original.abs().max()))
    torch.testing.assert_close(actual, original, rtol=rtol, atol=rtol * scale)


def like_original(entry: Entry, logits: Tensor, original: Tensor) -> Tensor:
    """Log-probabilities where the original returns them."""
    returns_log_softmax = bool((original.exp().sum(dim=1) - 1).abs().max() < 1e-4)
    return logits.log_softmax(dim=1) if returns_log_softmax else logits


def test_the_zoo_has_25_models_and_at_least_20_are_exported() -> None:
    assert [entry.number for entry in ZOO] == list(range(1, 26))
    assert len(EXPORTED) >= 20


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("entry", EXPORTED, ids=by_number)
def test_both_forms_equal_the_original(entry: Entry, dtype: torch.dtype, tmp_path: Path) -> None:
    gnn = exported(entry, tmp_path).to(dtype)
    model = trained(entry).to(dtype)
    graphs = random_graphs(entry, GRAPHS, seed=7, dtype=dtype)
    original = run_original(entry, model, graphs)
    with torch.no_grad():
        batch = to_sparse(graphs)
        sparse = gnn.node_logits(batch) if entry.of_nodes else gnn(batch)
        assert_same(like_original(entry, sparse, original), original)
        marked = graphs
        if entry.of_nodes:
            marked = [replace(g, target=node) for g in graphs for node in range(g.node_count)]
        dense = gnn.dense(to_dense(marked))
    assert_same(like_original(entry, dense, original), original)


@pytest.mark.parametrize("entry", EXPORTED, ids=by_number)
def test_the_dense_form_has_a_gradient_for_edges(entry: Entry, tmp_path: Path) -> None:
    gnn = exported(entry, tmp_path).double()
    graphs = random_graphs(entry, 12, seed=3, dtype=torch.float64)[5:]
    if entry.of_nodes:
        graphs = [replace(graph, target=0) for graph in graphs]
    dense = to_dense(graphs)
    adjacency = dense.adjacency.clone().requires_grad_()
    gnn.dense(dense.with_adjacency(adjacency)).sum().backward()
    assert adjacency.grad is not None
    assert bool(adjacency.grad.isfinite().all())
    assert bool((adjacency.grad != 0).any())


@pytest.mark.parametrize("entry", EXPORTED, ids=by_number)
def test_counterfactuals_flip_the_original(entry: Entry, tmp_path: Path) -> None:
    graphs = [graph for graph in random_graphs(entry, 48, seed=11) if graph.edge_count > 3]
    if entry.of_nodes:
        graphs = [replace(graph, target=0) for graph in graphs]
    model = undecided(entry, graphs)
    gnn = exported(entry, tmp_path, model)
    margins = predict(gnn, graphs, CPU).topk(2, dim=1).values.diff(dim=1).abs()[:, 0]
    for place in margins.argsort()[:6].tolist():
        before = answer_of(entry, model, graphs[place])
        outcome = explain(
            gnn, None, graphs[place], EditRules(max_ratio=1.0), CounterfactualConfig(), seed=0,
            device=CPU,
        )  # fmt: skip
        torch.testing.assert_close(outcome.probabilities, before, rtol=1e-3, atol=1e-4)
        for one in outcome.found:
            after = answer_of(entry, model, one.graph)
            assert int(after.argmax()) != int(before.argmax())
            torch.testing.assert_close(one.probabilities, after, rtol=1e-3, atol=1e-4)
        if outcome.found:
            return
    pytest.fail("no graph near the decision boundary was flipped")


def undecided(entry: Entry, graphs: list[Graph]) -> torch.nn.Module:
    """The model with another bias of its last layer: its classes are about equally frequent."""
    model = trained(entry)
    logits = run_original(entry, model, graphs)
    is_binary = bool((logits[:, 0] == 0).all())
    width = 1 if is_binary else logits.shape[1]
    names = {name: p for name, p in model.named_parameters() if p.numel() == width}
    bias = [parameter for name, parameter in names.items() if name.endswith("bias")][-1]
    with torch.no_grad():
        bias -= logits.median(dim=0).values[-width:]
    return model


def answer_of(entry: Entry, model: torch.nn.Module, graph: Graph) -> Tensor:
    rows = probabilities(run_original(entry, model, [graph]))
    return rows[0 if graph.target is None else graph.target]


@pytest.mark.parametrize("entry", REFUSED, ids=by_number)
def test_a_refusal_names_the_step_its_line_and_a_way_out(entry: Entry, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        export(trained(entry), tmp_path / "out")
    for words in entry.refused:
        assert words in refused.value.message
    lines, start = inspect.getsourcelines(entry.make)
    attribute = entry.refused[0].partition(" ")[0]
    called = next(n for n, line in enumerate(lines, start) if f"self.{attribute}(" in line)
    assert f"unusual_models.py:{called}: {attribute} " in refused.value.message
    assert not (tmp_path / "out").exists()


def test_the_table_of_the_zoo_is_documented() -> None:
    for entry in ZOO:
        verdict = "no" if entry.refused else "yes"
        assert f"| {entry.number} | {entry.summary} | {verdict} |" in PAGE
    assert f"{len(EXPORTED)} of {len(ZOO)} are exported" in PAGE
