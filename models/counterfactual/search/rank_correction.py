"""Corrects predicted gains by measured gains: most prediction errors belong to a node.

If the prediction for an edit is too high or too low, one of its two ends is usually the cause (a
rare atom, a hub). Predictions for other edits at that node have the same error.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.graphs.base_edit_space import BaseEditSpace

_PRIOR = 1.0  # weight of the prediction per node, in measured edits


def corrected(space: BaseEditSpace, predicted: Tensor, measured: Tensor, gains: Tensor) -> Tensor:
    """Predicted gains [pair] plus the errors of the two ends' measured edits.

    `gains` [measured] are the true gains of the pairs at the positions `measured`. With the error e
    of a measured pair (u, v), the node terms r minimise Σ (e - r_u - r_v)² + _PRIOR·Σ r². A pair's
    correction is r_u + r_v, which is 0 if no measured pair touches its ends.
    """
    errors = gains - predicted[measured]
    known = torch.isfinite(errors)  # the rules may forbid an edit
    measured, errors = measured[known], errors[known]
    ends = torch.stack([space.sources[measured], space.targets[measured]])  # [2, measured]
    nodes, columns = torch.unique(ends, return_inverse=True)
    if not len(nodes):
        return predicted.clone()
    incidence = torch.zeros(len(measured), len(nodes), dtype=torch.float64)
    row = torch.arange(len(measured))
    incidence[row, columns[0]] = 1
    incidence[row, columns[1]] = 1
    system = incidence.T @ incidence + _PRIOR * torch.eye(len(nodes), dtype=torch.float64)
    terms = torch.linalg.solve(system, incidence.T @ errors.double())
    of_node = torch.zeros(space.graph.node_count, dtype=predicted.dtype)
    of_node[nodes] = terms.to(predicted.dtype)
    return predicted + of_node[space.sources] + of_node[space.targets]
