"""Figures of hand-made answers, and curves against their definition."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.evaluation.answers import InstanceAnswer, edited_graph, toggled
from models.evaluation.curves import cf_acc_scores, curves
from models.evaluation.edit_patterns import recurring_edits
from models.evaluation.figures import explainer_figures
from models.evaluation.noise_robustness import kept_share


def path(nodes: int) -> Graph:
    edges = torch.tensor([[node, node + 1] for node in range(nodes - 1)]).T
    return Graph(torch.eye(2)[[node % 2 for node in range(nodes)]], edges)


NO_ANSWER = InstanceAnswer(0, nodes=10, edges=20, old_class=0)
ONE_EDIT = replace(NO_ANSWER, position=1, new_class=1, added=((0, 5),), fidelity=0.5)
THREE_EDITS = replace(
    NO_ANSWER,
    position=2,
    old_class=1,
    new_class=0,
    added=((0, 5), (0, 6)),
    removed=((1, 2),),
    fidelity=0.8,
    verdict="brittle",
    agrees=(True, True),
    shares=(True, False),
)

answers = st.builds(
    lambda edges, edits, fidelity: (
        replace(NO_ANSWER, edges=edges)
        if edits is None
        else replace(
            NO_ANSWER,
            edges=edges,
            new_class=1,
            added=tuple((0, i + 1) for i in range(edits)),
            fidelity=fidelity,
        )
    ),
    st.integers(1, 60),
    st.none() | st.integers(1, 12),
    st.floats(0, 1),
)


@given(st.lists(answers, min_size=1, max_size=20))
def test_curves_and_areas_follow_their_definition(several: list[InstanceAnswer]) -> None:
    steps = np.linspace(0, 0.3, 10)
    ratio = np.array([np.inf if one.ratio is None else one.ratio for one in several])
    gain = np.array([one.fidelity or 0 for one in several])
    strict = ratio[None, :] <= steps[:, None] + 1e-9
    result = curves(several)
    np.testing.assert_allclose(result.strict, strict.mean(1))
    np.testing.assert_allclose(result.fidelity, (strict * gain).mean(1))
    best = np.array([1 / one.edges for one in several])[None, :] <= steps[:, None] + 1e-9
    np.testing.assert_allclose(result.ceiling, best.mean(1))
    area = np.trapezoid(strict.mean(1), steps) / 0.3
    assert float(cf_acc_scores(several).mean()) == pytest.approx(area)


def test_figures_of_hand_made_answers() -> None:
    figures = explainer_figures([NO_ANSWER, ONE_EDIT, THREE_EDITS, ONE_EDIT], seed=0)
    assert figures.validity.value == 0.75
    assert figures.one_edit_share.value == 0.5
    assert figures.edits is not None
    assert (figures.edits.value, figures.edits.count) == (pytest.approx(5 / 3), 3)
    assert figures.edit_histogram == {1: 2, 3: 1}
    assert figures.flips == {(0, 1): 2, (1, 0): 1}
    assert figures.classes[0].value == pytest.approx(2 / 3)
    assert figures.classes[1].value == 1.0
    assert figures.verdicts == {"brittle": 1}
    assert figures.brittle_share is not None
    assert figures.brittle_share.count == 1
    assert figures.transfer is None  # some instances were not judged
    assert figures.stability is None
    assert figures.fidelity is not None
    assert figures.fidelity.value == pytest.approx(0.6)
    assert figures.cf_acc_auc.low <= figures.cf_acc_auc.value <= figures.cf_acc_auc.high
    assert figures.of_ceiling is not None
    assert figures.of_ceiling.value == pytest.approx(
        figures.cf_acc_auc.value / figures.ceiling.value
    )


def test_figures_depend_on_the_answers_alone() -> None:
    several = [NO_ANSWER, ONE_EDIT, THREE_EDITS] * 5
    assert (
        explainer_figures(several, seed=3).validity == explainer_figures(several, seed=3).validity
    )


def test_an_edited_graph_has_the_edits_of_its_answer() -> None:
    original = path(7)
    graph = edited_graph(original, replace(THREE_EDITS, removed=((1, 2),)))
    expected = nx.path_graph(7)
    expected.add_edges_from([(0, 5), (0, 6)])
    expected.remove_edge(1, 2)
    assert set(map(tuple, graph.edges.T.tolist())) == {tuple(sorted(e)) for e in expected.edges}
    again = toggled(graph, [(0, 5), (0, 6), (1, 2)])
    assert torch.equal(again.edges, original.edges)


def test_recurring_edits_count_answers_and_compare_with_the_data() -> None:
    graphs = [path(7)] * 3
    types = [graph.features.argmax(1) for graph in graphs]
    first = replace(THREE_EDITS, edges=6)
    patterns = recurring_edits(graphs, types, [first, first, replace(NO_ANSWER, edges=6)])
    single = {pattern.edits: pattern for pattern in patterns if len(pattern.edits) == 1}
    # Node 0 and 6 have type 0, node 5 and 1 type 1.
    assert set(single) == {(("add", 0, 1),), (("add", 0, 0),), (("remove", 0, 1),)}
    assert single[(("remove", 0, 1),)].instances == 2
    assert single[(("remove", 0, 1),)].base_share == 1.0  # all edges of a path join both types
    # 4 · 3 pairs of unlike type without the 6 edges, of 21 - 6 absent pairs.
    assert single[(("add", 0, 1),)].base_share == pytest.approx(6 / 15)
    (pair,) = [pattern for pattern in patterns if len(pattern.edits) == 2]
    assert pair.shared_type == 0
    assert pair.edits == (("add", 0, 0), ("add", 0, 1))
    assert pair.share == 1.0
    assert recurring_edits(graphs, types, [first, *[NO_ANSWER] * 2]) == []


def edge_counter(threshold: float) -> Gnn:
    """Class 1 if the graph has more edges than the threshold."""
    gnn = Gnn(GnnSpec(1, 2, (GinLayer(1, 1), PoolLayer("sum"), LinearLayer(2))))
    with torch.no_grad():
        for tensor in gnn.state_dict().values():
            tensor.zero_()
        state = gnn.state_dict()
        for value in state.values():
            if value.shape == (1, 1):
                value.fill_(1.0)
        head = next(name for name, value in state.items() if value.shape == (2, 1))
        state[head][1, 0] = 1.0
        state[head.replace("weight", "bias")][1] = -threshold
    gnn.load_state_dict(state)
    return gnn.eval()


def test_noisy_copies_keep_a_class_that_no_edit_changes() -> None:
    # GIN sums the node itself and its neighbours: nodes + 2 · edges for features of ones.
    graph = replace(path(12), features=torch.ones(12, 1))
    cpu = torch.device("cpu")
    far = edge_counter(1000.0)
    assert kept_share(far, graph, 0, seed=0, device=cpu) == 1.0
    assert kept_share(far, graph, 1, seed=0, device=cpu) == 0.0
    near = edge_counter(12 + 22 + 1.0)  # one added edge flips it, one removed edge does not
    share = kept_share(near, graph, 0, seed=0, device=cpu)
    assert share is not None
    assert 0.2 < share < 0.8
    assert share == kept_share(near, graph, 0, seed=0, device=cpu)
