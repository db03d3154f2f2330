"""Corrections of predicted gains, compared with least squares."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from models.counterfactual.oracle import FORBIDDEN
from models.counterfactual.search.rank_correction import corrected
from models.graphs.edits import EditRules, EditSpace


def path_space(nodes: int) -> EditSpace:
    """The edit space of a path in which every pair may be toggled."""
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return EditSpace.of(Graph(torch.ones(nodes, 1), edges), EditRules(max_ratio=10.0))


@given(nodes=st.integers(3, 9), seed=st.integers(0, 2**16), share=st.floats(0.1, 1.0))
def test_node_terms_fit_the_errors_of_measured_edits(nodes: int, seed: int, share: float) -> None:
    space, rng = path_space(nodes), torch.Generator().manual_seed(seed)
    predicted = torch.randn(space.count, generator=rng)
    count = max(1, int(share * space.count))
    measured = torch.randperm(space.count, generator=rng)[:count]
    gains = torch.randn(count, generator=rng)
    # Ridge regression is least squares with one more equation, r = 0, per node.
    rows = np.zeros((count, nodes))
    rows[np.arange(count), space.sources[measured]] = 1
    rows[np.arange(count), space.targets[measured]] = 1
    errors = (gains - predicted[measured]).double().numpy()
    parts = np.linalg.lstsq(
        np.vstack([rows, np.eye(nodes)]), np.concatenate([errors, np.zeros(nodes)]), rcond=None
    )[0]
    expected = predicted.double().numpy() + parts[space.sources] + parts[space.targets]
    gains = corrected(space, predicted, measured, gains)
    np.testing.assert_allclose(gains.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_gains_without_a_shared_node_stay_as_predicted() -> None:
    space = path_space(6)
    predicted = torch.arange(space.count, dtype=torch.float32)
    measured = int(((space.sources == 0) & (space.targets == 1)).nonzero())
    gains = corrected(space, predicted, torch.tensor([measured]), predicted[[measured]] + 3.0)
    untouched = (space.sources > 1) & (space.targets > 1)
    assert torch.equal(gains[untouched], predicted[untouched])
    touched = (space.sources <= 1) ^ (space.targets <= 1)
    # The error of 3 is divided between two ends and the prior.
    torch.testing.assert_close(gains[touched], predicted[touched] + 1.0)


def test_forbidden_edits_correct_nothing() -> None:
    space = path_space(4)
    predicted = torch.zeros(space.count)
    measured = torch.tensor([0, 1])
    gains = torch.tensor([FORBIDDEN, FORBIDDEN])
    assert torch.equal(corrected(space, predicted, measured, gains), predicted)
