"""Class comparison: motifs, figures of rows and a whole run."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
import torch
from typer.testing import CliRunner

from bench.__main__ import app
from bench.classes.figures import class_row
from bench.classes.methods import OURS, PAPER, PAPER_GRID
from bench.classes.runs import ClassAnswer, ClassResult
from bench.data.motifs import has_nitro_or_amine, motif_of, shows_class
from d4explain.gnn.graphs import Graph
from tests.unit.bench.counterfactuals.test_figures import rings_and_paths

torch.set_num_threads(1)
KEYS = [
    *("dataset", "label", "nodes", "method", "k", "t", "seeds", "n", "confidence_alone"),
    *("paper_confidence", "density", "paper_density", "class_support", "other_support"),
    *("contrast", "effect", "confidence", "motif", "from_denoiser", "seconds"),
    *("seed", "versions", "commit", "machine", "date", "train_seconds", "budget"),
]


def graph_of(network: nx.Graph, target: int | None = None) -> Graph:
    network = nx.convert_node_labels_to_integers(network)
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).view(-1, 2)
    return Graph(torch.ones(network.number_of_nodes(), 1), edges.T.contiguous(), target)


def with_tail(network: nx.Graph, nodes: int) -> nx.Graph:
    result = nx.disjoint_union(network, nx.path_graph(nodes))
    result.add_edge(0, network.number_of_nodes())
    return result


def test_a_pattern_shows_a_motif_with_at_most_two_further_nodes() -> None:
    house, cycle = nx.house_graph(), nx.cycle_graph(5)
    assert shows_class("ba3motif", 0, [graph_of(house), graph_of(cycle)])
    assert shows_class("ba3motif", 0, [graph_of(with_tail(house, 2))])
    assert not shows_class("ba3motif", 0, [graph_of(with_tail(house, 3))])
    assert not shows_class("ba3motif", 0, [graph_of(nx.house_x_graph())])  # not induced
    assert not shows_class("ba3motif", 0, [graph_of(cycle), graph_of(house)])  # only the first
    assert not shows_class("ba3motif", 2, [])
    assert shows_class("ba3motif", 2, [graph_of(with_tail(cycle, 1))])
    assert shows_class("mutagenicity", 1, [graph_of(cycle)]) is None


def test_parts_of_the_grid_count_below_nine_nodes() -> None:
    grid, ladder = nx.grid_2d_graph(3, 3), nx.grid_2d_graph(2, 3)
    motif = motif_of("ba3motif", 1)
    assert motif is not None
    assert nx.is_isomorphic(motif, grid)
    assert shows_class("ba3motif", 1, [graph_of(grid)])
    assert shows_class("ba3motif", 1, [graph_of(ladder)])
    assert not shows_class("ba3motif", 1, [graph_of(with_tail(ladder, 3))])  # 9 nodes, no grid
    assert not shows_class("ba3motif", 1, [graph_of(nx.cycle_graph(4))])


def test_a_marked_node_must_have_its_role() -> None:
    house = nx.house_graph()  # 0, 1 at the bottom, 2, 3 in the middle, 4 the roof
    for target, label in ((0, 2), (1, 2), (2, 1), (3, 1), (4, 3)):
        shown = [shows_class("ba_shapes", one, [graph_of(house, target)]) for one in (1, 2, 3)]
        assert shown == [one == label for one in (1, 2, 3)]
    ring = with_tail(nx.cycle_graph(6), 1)
    assert shows_class("tree_cycle", 1, [graph_of(ring, 3)])
    assert not shows_class("tree_cycle", 1, [graph_of(ring, 6)])  # the tail is marked
    assert shows_class("tree_cycle", 0, [graph_of(nx.path_graph(4), 0)])
    assert not shows_class("tree_cycle", 0, [graph_of(ring, 0)])


def test_nitro_and_amino_groups_are_recognised() -> None:
    def molecule(*kinds: int) -> Graph:
        star = graph_of(nx.star_graph(len(kinds) - 1))
        return Graph(torch.eye(14)[list(kinds)], star.edges)

    nitro, amine, other = molecule(4, 1, 1, 0), molecule(4, 3, 3), molecule(4, 1, 3, 0)
    assert [has_nitro_or_amine(one) for one in (nitro, amine, other)] == [True, True, False]
    assert shows_class("mutagenicity", 0, [other, other, nitro])
    assert not shows_class("mutagenicity", 0, [other, other, other, nitro])


def test_row_figures() -> None:
    def answer(network: nx.Graph, alone: float, support: float) -> ClassAnswer:
        return ClassAnswer(graph_of(network), alone, 0.4, support, 0.1, 2.0, 0.8, True)

    house, cycle = answer(nx.house_graph(), 0.2, 1.0), answer(nx.cycle_graph(5), 0.6, 0.5)
    results = [
        ClassResult([house, cycle], 2.0, 60.0, {}),
        ClassResult([cycle], 4.0, 60.0, {}),
        ClassResult([], 3.0, 60.0, {}),
    ]
    row = class_row("ba3motif", 0, 5, OURS[0], results)
    assert (row.seeds, row.n, row.seconds) == (3, 1.0, 3.0)
    assert row.confidence_alone == pytest.approx((0.2 + 0.6 + 0.6) / 3)
    assert row.class_support == pytest.approx(0.75)  # of the first answers
    assert row.contrast == pytest.approx(0.65)
    assert row.motif == pytest.approx(1 / 3)
    assert (row.paper_confidence, row.paper_density) == (0.997, 0.313)
    empty = class_row("ba3motif", 0, None, OURS[1], results[2:])
    assert (empty.contrast, empty.density, empty.paper_density, empty.motif) == (
        None, None, None, 0.0,
    )  # fmt: skip


def test_the_grid_has_the_settings_of_the_paper() -> None:
    settings = {(method.candidates, method.steps) for method in (PAPER, *PAPER_GRID)}
    assert settings == {(10, 50), (20, 10), (20, 50), (20, 100), (30, 50)}


@pytest.mark.slow
def test_whole_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # caches and results go to the current folder
    arguments = ["classes", "--dataset", str(rings_and_paths(tmp_path / "rings.zip"))]
    arguments += ["--budget", "0.2", "--seeds", "2", "--json", "rows.json"]
    runner = CliRunner()
    first = runner.invoke(app, arguments, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    rows = json.loads(Path("rows.json").read_text())
    assert all(list(row) == [*KEYS, "command"] for row in rows)
    assert {row["method"] for row in rows} == {"d4", "mined", "d4_paper"}
    assert {row["seeds"] for row in rows if row["nodes"] is None} == {2}
    second = runner.invoke(app, arguments, catch_exceptions=False)
    assert "training" not in second.output
    assert json.loads(Path("rows.json").read_text()) == rows

    for label in (1, 0, 1):  # a later run replaces its own rows only
        kept = runner.invoke(app, [*arguments[:-2], "--class", str(label), "--keep"])
        assert kept.exit_code == 0, kept.output
    saved = json.loads(Path("bench/results/classes-rings.json").read_text())
    assert [row["label"] for row in saved] == sorted((row["label"] for row in rows), reverse=True)
    assert {row["command"].count("--class") for row in saved} == {1}
