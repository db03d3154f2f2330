"""The sanity check: its area under the ROC curve and the edges that count as the motif."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.data.splits import DataMissingError, Part
from bench.data.tasks import Task, data_folder, load_task
from bench.explainers.sanity import motif_nodes, roc_auc, sanity_row
from bench.gnns.recipes import target_recipe
from d4explain.gnn.network import Gnn
from tests.unit.models.small_gnns import graph_of, random_gnn, random_graph


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=20))
def test_the_area_counts_pairs_in_the_right_order(scored: list[tuple[int, bool]]) -> None:
    positive = [score for score, is_positive in scored if is_positive]
    negative = [score for score, is_positive in scored if not is_positive]
    if not positive or not negative:
        return
    pairs = [(high > low) + 0.5 * (high == low) for high in positive for low in negative]
    scores = torch.tensor([score for score, _ in scored], dtype=torch.float32)
    truth = torch.tensor([is_positive for _, is_positive in scored])
    assert roc_auc(scores, truth) == pytest.approx(sum(pairs) / len(pairs))


@pytest.fixture(scope="module")
def always_cycle() -> Gnn:
    """A GNN of the shape of Tree-Cycle's that gives every node the class of cycles."""
    task = load_task("tree_cycle")
    gnn = Gnn(target_recipe("tree_cycle").spec(task.features, task.classes)).eval()
    with torch.no_grad():
        for parameter in gnn.layers[-1].parameters():
            parameter.zero_()
        gnn.layers[-1].linear.bias[1] = 1
    return gnn


@pytest.mark.skipif(not (data_folder() / "Tree_Cycle.npz").exists(), reason="needs Tree-Cycle")
def test_the_motif_of_a_node_is_its_own_cycle(always_cycle: Gnn) -> None:
    cases = motif_nodes(load_task("tree_cycle"), always_cycle, 10)
    assert len(cases) == 10
    for case in cases:
        ends = case.instance.graph.edges[:, case.in_motif].T.tolist()
        degrees = torch.tensor(ends).flatten().bincount()
        # All six edges of its cycle are within the neighbourhood, and the node is on it.
        assert len(ends) == 6
        assert int(degrees[0]) == 2
        assert set(degrees.tolist()) <= {0, 2}


@pytest.mark.skipif(not (data_folder() / "Tree_Cycle.npz").exists(), reason="needs Tree-Cycle")
def test_random_edits_find_the_motif_by_chance_alone(always_cycle: Gnn) -> None:
    row = sanity_row(
        load_task("tree_cycle"),
        always_cycle,
        "saliency",
        nodes=5,
        seed=0,
        on_progress=lambda *_: None,
    )
    assert row.auc == 0.5  # a constant GNN has no gradients
    assert row.published == 0.905


def test_a_data_set_without_known_motifs_is_refused() -> None:
    part = Part([graph_of(2, [(0, 1)])], torch.zeros(1, dtype=torch.long))
    task = Task("other", 2, part, part, part)
    with pytest.raises(DataMissingError, match="no known motifs"):
        motif_nodes(task, random_gnn(0, random_graph(0, 4)), 1)
