"""What judged edits say about the others: where the foresight errs, it errs by node.

What one edit was foretold too much or too little is mostly due to its two ends (an atom that the
denoiser has seldom seen, a hub), and the other edits at these ends are off in the same way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.graphs.base_edit_space import BaseEditSpace

_PRIOR = 1.0  # edits' worth of trust in the foresight, per node


def corrected(space: BaseEditSpace, foretold: Tensor, judged: Tensor, gains: Tensor) -> Tensor:
    """Foretold gains [pair] plus what their ends' judged edits gained beyond what was foretold.

    `gains` [judged] are what the pairs at the positions `judged` really gain. With error e of a
    judged pair (u, v) the nodes' parts r minimise Σ (e - r_u - r_v)² + _PRIOR·Σ r², and a pair's
    correction is r_u + r_v: 0 for one whose ends are no end of a judged pair.
    """
    errors = gains - foretold[judged]
    known = torch.isfinite(errors)  # the rules may forbid an edit
    judged, errors = judged[known], errors[known]
    ends = torch.stack([space.sources[judged], space.targets[judged]])  # [2, judged]
    nodes, places = torch.unique(ends, return_inverse=True)
    if not len(nodes):
        return foretold.clone()
    incidence = torch.zeros(len(judged), len(nodes), dtype=torch.float64)
    row = torch.arange(len(judged))
    incidence[row, places[0]] = 1
    incidence[row, places[1]] = 1
    system = incidence.T @ incidence + _PRIOR * torch.eye(len(nodes), dtype=torch.float64)
    parts = torch.linalg.solve(system, incidence.T @ errors.double())
    of_node = torch.zeros(space.graph.node_count, dtype=foretold.dtype)
    of_node[nodes] = parts.to(foretold.dtype)
    return foretold + of_node[space.sources] + of_node[space.targets]
