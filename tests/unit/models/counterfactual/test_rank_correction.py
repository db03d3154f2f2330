"""Corrections of what is foretold, against least squares."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph
from models.counterfactual.oracle import FORBIDDEN
from models.counterfactual.search.rank_correction import corrected
from models.graphs.edits import EditRules, EditSpace


def a_space(nodes: int) -> EditSpace:
    """Of a path, where every pair may be toggled."""
    edges = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return EditSpace.of(Graph(torch.ones(nodes, 1), edges), EditRules(max_ratio=10.0))


@given(nodes=st.integers(3, 9), seed=st.integers(0, 2**16), share=st.floats(0.1, 1.0))
def test_nodes_take_what_their_judged_edits_were_off_by(
    nodes: int, seed: int, share: float
) -> None:
    space, rng = a_space(nodes), torch.Generator().manual_seed(seed)
    foretold = torch.randn(space.count, generator=rng)
    some = max(1, int(share * space.count))
    judged = torch.randperm(space.count, generator=rng)[:some]
    gains = torch.randn(some, generator=rng)
    # a ridge is least squares with one more equation, r = 0, per node
    rows = np.zeros((some, nodes))
    rows[np.arange(some), space.sources[judged]] = 1
    rows[np.arange(some), space.targets[judged]] = 1
    errors = (gains - foretold[judged]).double().numpy()
    parts = np.linalg.lstsq(
        np.vstack([rows, np.eye(nodes)]), np.concatenate([errors, np.zeros(nodes)]), rcond=None
    )[0]
    expected = foretold.double().numpy() + parts[space.sources] + parts[space.targets]
    found = corrected(space, foretold, judged, gains)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_shares_no_end_with_a_judged_edit_stays_as_foretold() -> None:
    space = a_space(6)
    foretold = torch.arange(space.count, dtype=torch.float32)
    judged = int(((space.sources == 0) & (space.targets == 1)).nonzero())
    found = corrected(space, foretold, torch.tensor([judged]), foretold[[judged]] + 3.0)
    apart = (space.sources > 1) & (space.targets > 1)
    assert torch.equal(found[apart], foretold[apart])
    touched = (space.sources <= 1) ^ (space.targets <= 1)
    torch.testing.assert_close(
        found[touched], foretold[touched] + 1.0
    )  # 3 over two ends and a prior


def test_forbidden_edits_teach_nothing() -> None:
    space = a_space(4)
    foretold = torch.zeros(space.count)
    judged = torch.tensor([0, 1])
    gains = torch.tensor([FORBIDDEN, FORBIDDEN])
    assert torch.equal(corrected(space, foretold, judged, gains), foretold)
