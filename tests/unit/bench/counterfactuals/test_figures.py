"""Counterfactual comparison: instances, exhaustive search, rows and a whole run."""

from __future__ import annotations

import json
import zipfile
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from bench.__main__ import app
from bench.counterfactuals.figures import MethodResult, counterfactual_row, shared_mmd, toggle_pairs
from bench.counterfactuals.instances import (
    EditableInstance,
    InstancePart,
    candidate_pairs,
    fewest_edits,
    held_out_graphs,
    is_covered,
    select_instances,
)
from bench.counterfactuals.intervals import mmd_gain
from bench.counterfactuals.methods import SEARCHES
from bench.data.splits import Part
from bench.data.tasks import Task
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.graphs.edits import EditRules, EditSpace
from models.metrics.mmd import mmd, statistics
from models.metrics.scores import Instance, cf_acc_auc, cf_acc_curve
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
CPU = torch.device("cpu")
ROW_KEYS = [
    *("dataset", "method", "n", "auc_strict", "ceiling", "auc_possible", "auc_one_edit"),
    *(
        "fidelity_auc",
        "fidelity_any_auc",
        "mean_edits",
        "mean_ratio",
        "flip_rate",
        "flip_rate_005",
        "flip_rate_01",
        "mmd_sum",
    ),
    *("mmd_heldout", "mmd_floor", "alternatives", "alternatives3", "share_not_minimal"),
    *("gnn_evaluations", "gnn_gradients", "cpu_seconds", "cpu_seconds_n60", "share_covered"),
    *("refuted_on_whole", "train_seconds", "curve"),
    *("na", "na_low", "na_high", "nafr", "nafr_low", "nafr_high"),
    *("c2st", "c2st_low", "c2st_high", "c2st_n", "c2st_untouched"),
    *("c2st_constant_folds", "answers", "unseen_answers", "judges"),
]


def random_graph(seed: int, nodes: int, density: float = 0.3) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < density, diagonal=1).nonzero().T
    return Graph(torch.randn(nodes, 2, generator=rng), edges.contiguous())


def random_gnn(seed: int, graph: Graph, bias: float) -> Gnn:
    """The input's logits differ by `bias` standard deviations of the effect of a single edit."""
    layers = (GinLayer(6, 6), ActivationLayer("tanh"), PoolLayer("sum"), LinearLayer(2))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        gnn = Gnn(GnnSpec(2, 2, layers)).eval()
    pairs = [(pair,) for pair in combinations(range(graph.node_count), 2)]
    graphs = [graph, *(toggle_pairs(graph, pair) for pair in pairs)]
    log_probabilities = predict(gnn, graphs, CPU).log()  # [graph, class]
    log_odds = log_probabilities[:, 0] - log_probabilities[:, 1]
    last_layer = gnn.layers[-1].linear
    with torch.no_grad():
        last_layer.bias[0] += bias * log_odds.std() - log_odds[0]
    return gnn


def any_edit(graph: Graph, ratio: float = 1.0) -> EditableInstance:
    return EditableInstance(graph, EditRules(max_ratio=ratio), restricted=False)


def test_candidate_pairs_are_edges_then_nearest_pairs() -> None:
    graph = Graph(torch.ones(12, 1), torch.stack([torch.arange(10), torch.arange(1, 11)]))
    pairs = candidate_pairs(graph, 25, torch.Generator().manual_seed(0))
    distances = [abs(a - b) for a, b in pairs]
    assert distances == [1] * 10 + [2] * 9 + [3] * 6
    all_pairs = candidate_pairs(graph, 100, torch.Generator().manual_seed(0))
    assert len(all_pairs) == 66
    assert all(11 in pair for pair in all_pairs[-11:])  # the unreachable node comes last


def test_large_graphs_are_restricted_to_2000_pairs_including_edges() -> None:
    large, small = random_graph(0, 70, 0.04), random_graph(1, 40, 0.1)
    part = Part([large, small], torch.tensor([0, 1]))
    instances = select_instances(Task("x", 2, part, part, part), 2, 0)
    by_size = {instance.graph.node_count: instance for instance in instances}
    assert by_size[70].restricted
    assert not by_size[40].restricted
    space = EditSpace.of(large, by_size[70].rules)
    assert space.count == 2000
    assert int(space.present.sum()) == large.edge_count
    assert EditSpace.of(small, by_size[40].rules).count == 40 * 39 // 2
    assert not is_covered(by_size[40])  # more than 600 pairs


@pytest.mark.parametrize("seed", range(6))
def test_fewest_edits_agrees_with_brute_force(seed: int) -> None:
    graph = random_graph(seed, 7)
    gnn = random_gnn(seed, graph, bias=float(seed))
    (before,) = predict(gnn, [graph], CPU).argmax(dim=1).tolist()
    pairs = list(combinations(range(7), 2))
    expected = None
    for size in (2, 1):
        tried = [toggle_pairs(graph, edits) for edits in combinations(pairs, size)]
        if size <= graph.edge_count and (predict(gnn, tried, CPU).argmax(dim=1) != before).any():
            expected = size
    assert fewest_edits(gnn, any_edit(graph)) == expected


def test_fewest_edits_respects_the_budget() -> None:
    graph = random_graph(1, 7)
    gnn = random_gnn(1, graph, bias=0.1)
    assert fewest_edits(gnn, any_edit(graph)) == 1
    assert fewest_edits(gnn, any_edit(graph, ratio=0.0)) is None


def test_row_figures() -> None:
    graphs = [random_graph(seed, 8, 0.5) for seed in range(4)]
    gnn = random_gnn(0, graphs[0], bias=0.1)
    no_flip: tuple[()] = ()
    found = [(((0, 1),), ((2, 3), (4, 5)), ((1, 2), (3, 4))), (((0, 1), (2, 3)),), no_flip, no_flip]
    answers = [
        MethodResult(any_edit(graph), edits, gnn_evaluations=10, gnn_gradients=3, cpu_seconds=0.5)
        for graph, edits in zip(graphs, found, strict=True)
    ]
    figures, detail = counterfactual_row(
        "x",
        "d4",
        gnn,
        answers=answers,
        held_out=graphs,
        fewest=[1, 1, 2, None],
        covered=[True, True, True, False],
        train_seconds=3.0,
    )
    assert (figures.n, figures.flip_rate, figures.mean_edits) == (4, 0.5, 1.5)
    one, two = (graph.edge_count for graph in graphs[:2])
    assert figures.mean_ratio == pytest.approx((1 / one + 2 / two) / 2)
    assert (figures.alternatives, figures.alternatives3) == (1.0, 0.5)
    # Of the three covered instances, the second needs one edit less and the third has no answer.
    assert figures.share_not_minimal == pytest.approx(2 / 3)
    assert (figures.gnn_evaluations, figures.gnn_gradients, figures.cpu_seconds) == (10, 3, 0.5)
    # The fourth instance is not covered, so one edit might be enough.
    fewest = zip(graphs, (1, 1, 2, 1), strict=True)
    best = [Instance(graph.edge_count, edits) for graph, edits in fewest]
    assert figures.auc_possible == cf_acc_auc(cf_acc_curve(best))
    toggled_pairs = [(0, (0, 1)), (1, (0, 1)), (1, (2, 3))]  # of the best answers
    removed = sum(list(pair) in graphs[index].edges.T.tolist() for index, pair in toggled_pairs)
    assert (detail.added, detail.removed) == (3 - removed, removed)


def rings_and_paths(path: Path) -> Path:
    """40 graphs of 6 to 9 nodes in the TU format; class 1 is a ring."""
    edges, indicator, labels, first = [], [], [], 1
    for index in range(40):
        nodes = 6 + index % 4
        network = nx.cycle_graph(nodes) if index % 2 else nx.path_graph(nodes)
        edges += [f"{first + a}, {first + b}" for a, b in network.edges]
        indicator += [str(index + 1)] * nodes
        labels.append(str(index % 2))
        first += nodes
    with zipfile.ZipFile(path, "w") as archive:
        for ending, lines in (
            ("A", edges),
            ("graph_indicator", indicator),
            ("graph_labels", labels),
        ):
            archive.writestr(f"R/R_{ending}.txt", "\n".join(lines) + "\n")
    return path


def test_whole_run_resumes_and_its_dump_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # caches and results go to the current folder
    arguments = ["counterfactual", "--dataset", str(rings_and_paths(tmp_path / "rings.zip"))]
    arguments += ["--budget", "0.2", "--test", "4", "--json", "rows.json", "--dump", "dump"]
    runner = CliRunner()
    first = runner.invoke(app, arguments, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    rows = json.loads(Path("rows.json").read_text())
    assert [row["method"] for row in rows] == list(SEARCHES)
    origin = ["seed", "versions", "commit", "machine", "date", "budget", "from_validation"]
    origin += ["mmd_gain_low", "mmd_gain_high"]
    origin += ["shared", "mmd_shared", "mmd_shared_other", "mmd_shared_floor", "command"]
    assert all(list(row) == ROW_KEYS + origin for row in rows)
    by_method = {row["method"]: row for row in rows}
    assert by_method["d4"]["mmd_gain_low"] <= by_method["d4"]["mmd_gain_high"]
    assert by_method["d4"]["auc_strict"] >= by_method["greedy"]["auc_strict"]
    assert len(by_method["d4"]["judges"]) == 5
    assert by_method["d4"]["c2st"] is None  # too few instances
    assert "too few to measure it" in " ".join(first.output.split())
    assert Path("rows.png").read_bytes().startswith(b"\x89PNG")
    check_dump(Path("dump"))

    second = runner.invoke(app, arguments, catch_exceptions=False)
    assert "training" not in second.output
    assert json.loads(Path("rows.json").read_text()) == rows


def test_gnns_are_listed_with_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["gnns", "--dataset", str(rings_and_paths(tmp_path / "rings.zip"))]
    arguments += ["--seconds", "0", "--seed", "3", "--json", "rows.json"]
    rows = []
    for _ in range(2):
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        rows += json.loads(Path("rows.json").read_text())
    assert [row.pop("cached") for row in rows] == [False, True]
    assert rows[0] == rows[1]
    assert (rows[0]["dataset"], rows[0]["seed"], rows[0]["epochs"]) == ("rings", 3, 1)
    assert {"versions", "commit", "machine", "date", "test_accuracy"} <= rows[0].keys()


def check_dump(folder: Path) -> None:
    """Every answer flips the dumped GNN, and its edits have the right action."""
    spec = GnnSpecDocument.model_validate_json((folder / "spec.json").read_text())
    gnn = Gnn(spec_from_document(spec))
    gnn.load_state_dict(load_file(folder / "weights.safetensors"))
    instances = json.loads((folder / "instances.json").read_text())
    edits = json.loads((folder / "edits.json").read_text())
    assert sorted(edits) == sorted(SEARCHES)
    checked = 0
    for answers in edits.values():
        for instance, alternatives in zip(instances, answers, strict=True):
            features = torch.tensor([node["x"] for node in instance["nodes"]])
            for alternative in alternatives:
                edges = {(edge["source"], edge["target"]) for edge in instance["edges"]}
                for source, target, action in alternative:
                    assert ((source, target) in edges) == (action == "remove")
                    edges ^= {(source, target)}
                after = Graph(features, torch.tensor(sorted(edges)).view(-1, 2).T)
                assert int(predict(gnn, [after], CPU)[0].argmax()) != instance["label"]
                checked += 1
    assert checked


def test_validation_instances_are_explained_apart_from_test_instances() -> None:
    train, validation, test = (
        Part([random_graph(first + seed, 6) for seed in range(12)], torch.zeros(12).long())
        for first in (0, 100, 200)
    )
    task = Task("x", 2, train, validation, test)
    tested = select_instances(task, 5, 0)
    assert not any(instance.from_validation for instance in tested)
    assert held_out_graphs(task, tested, InstancePart.TEST) == validation.graphs
    validated = select_instances(task, 5, 0, InstancePart.VALIDATION)
    explained = [id(instance.graph) for instance in validated]
    assert all(instance.from_validation for instance in validated)
    assert set(explained) <= set(map(id, validation.graphs))
    held_out = held_out_graphs(task, validated, InstancePart.VALIDATION)
    assert not set(explained).intersection(map(id, held_out))
    # Seven validation graphs are few, so training graphs are added.
    assert len(held_out) == 7 + 12


def test_results_of_validation_instances_are_not_saved() -> None:
    arguments = ["counterfactual", "--instances", "validation", "--keep"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, "test instances" in result.output) == (2, True)


def test_unknown_methods_and_data_sets_are_rejected() -> None:
    runner = CliRunner()
    unknown = runner.invoke(app, ["counterfactual", "--method", "magic"])
    assert (unknown.exit_code, "Unknown method magic" in unknown.output) == (2, True)
    missing = runner.invoke(app, ["gnns", "--dataset", "nowhere"])
    assert (missing.exit_code, "Unknown data set 'nowhere'" in missing.output) == (2, True)


def method_result(graph: Graph, edits: tuple[tuple[int, int], ...] | None) -> MethodResult:
    instance = EditableInstance(graph, EditRules(), restricted=False)
    return MethodResult(instance, () if edits is None else (edits,), 1, 0, 0.0)


def test_one_resample_of_the_mmd_gain_is_the_difference_of_two_mmds() -> None:
    graphs = [random_graph(seed, 7) for seed in range(6)]
    held_out = [random_graph(seed, 8) for seed in range(10, 15)]
    ours = [method_result(graph, ((0, 1),)) for graph in graphs]
    theirs = [method_result(graph, ((2, 3), (4, 5))) for graph in graphs]
    theirs[2] = method_result(graphs[2], None)  # without a flip, it counts for neither
    interval = mmd_gain(ours, theirs, held_out, seed=3, resamples=1)

    draw = torch.randint(5, (1, 5), generator=torch.Generator().manual_seed(3))[0].tolist()
    shared = [graph for index, graph in enumerate(graphs) if index != 2]
    reference = statistics(held_out)
    our_graphs = [toggle_pairs(shared[index], ((0, 1),)) for index in draw]
    their_graphs = [toggle_pairs(shared[index], ((2, 3), (4, 5))) for index in draw]
    our_mmd, their_mmd = (mmd(statistics(some), reference) for some in (our_graphs, their_graphs))
    assert interval is not None
    assert interval.low == pytest.approx(their_mmd.sum - our_mmd.sum, abs=1e-12)
    assert interval.high == interval.low


def test_shared_mmd_uses_instances_that_both_flip() -> None:
    graphs = [random_graph(seed, 7) for seed in range(4)]
    held_out = [random_graph(seed, 8) for seed in range(10, 15)]
    ours = [method_result(graph, ((0, 1),)) for graph in graphs]
    others = [
        method_result(graph, ((2, 3),) if index else None) for index, graph in enumerate(graphs)
    ]
    reference = statistics(held_out)
    result = shared_mmd(ours, others, held_out)
    assert result is not None
    assert result.shared == 3
    assert result.mmd_shared_floor == mmd(statistics(graphs[1:]), reference).sum
    our_graphs = statistics([toggle_pairs(graph, ((0, 1),)) for graph in graphs[1:]])
    other_graphs = statistics([toggle_pairs(graph, ((2, 3),)) for graph in graphs[1:]])
    assert result.mmd_shared == mmd(our_graphs, reference).sum
    assert result.mmd_shared_other == mmd(other_graphs, reference).sum
    assert shared_mmd(ours[:1], others[:1], held_out) is None


def test_mmd_gain_of_natural_over_broken_graphs_excludes_zero() -> None:
    held_out = [Graph(torch.ones(8, 1), path(8)) for _ in range(5)]
    paths = [Graph(torch.ones(9, 1), path(9)) for _ in range(12)]
    natural = [method_result(graph, ((0, 8),)) for graph in paths]
    broken = [
        method_result(graph, tuple((i, i + 1) for i in range(index % 3, 8)))
        for index, graph in enumerate(paths)
    ]
    interval = mmd_gain(natural, broken, held_out, seed=0)
    assert interval is not None
    assert 0 < interval.low <= interval.high
    assert mmd_gain(natural, natural, held_out, seed=0) == (0.0, 0.0)
    assert mmd_gain(natural[:1], broken[:1], held_out, seed=0) is None


def path(nodes: int) -> torch.Tensor:
    return torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
