"""NA and NAFR: hand-made votes, and votes of GNNs whose classes are known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.counterfactuals.figures import MethodResult
from bench.counterfactuals.instances import EditableInstance
from bench.counterfactuals.transfer import judge_votes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.evaluation.bootstrap import percentile_interval, resampled_shares
from models.evaluation.transfer import TransferFigures, Votes, na, nafr, transfer_figures
from models.graphs.edits import EditRules


def bools(text: str) -> torch.Tensor:
    """Rows of 0 and 1, separated by blanks."""
    return torch.tensor([[mark == "1" for mark in row] for row in text.split()])


def test_figures_of_hand_made_votes() -> None:
    votes = Votes(
        agrees=bools("11110 11000"), flipped=bools("11101")[0], shared=bools("11000 10000")
    )
    figures = transfer_figures(votes, seed=0)
    # The first judge agrees on four originals, of which three flip; the second on two, both flip.
    assert figures.na == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert figures.nafr == pytest.approx((2 / 4 + 1 / 2) / 2)


def test_without_flips_there_is_no_na_and_nafr_is_zero() -> None:
    votes = Votes(bools("111 101"), bools("000")[0], bools("000 000"))
    assert transfer_figures(votes, seed=0) == TransferFigures(None, None, None, 0.0, 0.0, 0.0)


def test_judge_that_never_agrees_is_left_out() -> None:
    votes = Votes(bools("111 000"), bools("111")[0], bools("110 000"))
    assert transfer_figures(votes, seed=0).na == pytest.approx(2 / 3)
    nobody = Votes(bools("000"), bools("111")[0], bools("000"))
    assert transfer_figures(nobody, seed=0).nafr is None


def test_resamples_are_the_same_for_every_method() -> None:
    """A method that shares one flip more than another has no lower NAFR in any resample."""
    agrees, flipped = bools("1" * 30), bools("1" * 30)[0]
    better = Votes(agrees, flipped, bools("1" * 20 + "0" * 10))
    worse = Votes(agrees, flipped, bools("1" * 19 + "0" * 11))
    shares = resampled_shares(30, seed=4)
    low, high = percentile_interval(nafr(better, shares) - nafr(worse, shares))
    assert 0 <= low < 1 / 30 < high < 0.15
    # The interval of one method is that of a binomial share: 2/3 ± 1.96 · √(2/9 / 30).
    low, high = percentile_interval(na(better, shares))
    assert low == pytest.approx(2 / 3 - 0.169, abs=0.035)
    assert high == pytest.approx(2 / 3 + 0.169, abs=0.035)


@given(st.data())
def test_na_is_at_least_nafr(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    marks = st.lists(st.booleans(), min_size=count, max_size=count)
    agrees = torch.tensor(data.draw(st.lists(marks, min_size=1, max_size=4)))
    flipped = torch.tensor(data.draw(marks))
    says_new = torch.tensor(data.draw(marks))
    votes = Votes(agrees, flipped, agrees & flipped & says_new)
    whole = torch.ones(1, count, dtype=torch.float64)
    every_judge_counts = bool((agrees & flipped).any(dim=1).all())
    if every_judge_counts:
        assert 0 <= float(nafr(votes, whole)) <= float(na(votes, whole)) <= 1


def edge_counter(thresholds: tuple[float, ...]) -> Gnn:
    """Its class is the number of thresholds that the number of edges exceeds.

    With features and weights 1, GIN gives each node 1 + its degree, so four nodes and m edges have
    the sum 4 + 2m.
    """
    classes = len(thresholds) + 1
    gnn = Gnn(GnnSpec(1, classes, (GinLayer(1, 1), PoolLayer("sum"), LinearLayer(classes))))
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.zero_()
        for name, parameter in gnn.named_parameters():
            if name.startswith("layers.0") and name.endswith("weight"):
                parameter.fill_(1.0)
        head = gnn.layers[-1].linear
        for position, threshold in enumerate(thresholds, 1):
            head.weight[position] = position
            head.bias[position] = head.bias[position - 1] - (4 + 2 * threshold)
    return gnn.eval()


def method_result(
    edges: list[tuple[int, int]], edits: tuple[tuple[int, int], ...] | None
) -> MethodResult:
    graph = Graph(torch.ones(4, 1), torch.tensor(edges).T)
    instance = EditableInstance(graph, EditRules(), restricted=False)
    return MethodResult(instance, () if edits is None else (edits,), 1, 0, 0.0)


def test_judges_must_agree_on_the_old_and_on_the_new_class() -> None:
    path, star = [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]
    answers = [
        method_result(path, ((0, 2),)),  # 3 → 4 edges
        method_result(path, ((0, 2), (0, 3), (1, 3))),  # 3 → 6 edges
        method_result(star, None),
        method_result([*path, (0, 2), (0, 3)], ((0, 1), (1, 2))),  # 5 → 3 edges
    ]
    gnn = edge_counter((3.5,))  # 0 below 4 edges
    votes = judge_votes(gnn, [gnn, edge_counter((5.5,)), edge_counter((3.5, 5.5))], answers)
    assert votes.flipped.tolist() == [True, True, False, True]
    assert votes.agrees.tolist() == [[True] * 4, [True, True, True, False], [True] * 4]
    assert votes.shared.tolist() == [
        [True, True, False, True],
        [False, True, False, False],  # at 5 edges it does not say the old class
        [True, False, False, True],  # it gives 6 edges a third class, which is no shared flip
    ]
