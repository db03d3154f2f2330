"""Whether features of nodes say of what type the nodes are, as `models.realism.node_types` reads.

The service does not import PyTorch, so the rule stands here again; a test compares both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAX_COLUMNS = 512  # more columns are words or measurements, not a one-hot code
_NODES_PER_ROW = 50  # distinct rows are types if they repeat at least this often on average


def have_node_types(x: NDArray[np.float32], starts: NDArray[np.int64]) -> bool:
    """`x` is [node, feature] of all graphs, whose first nodes are `starts`.

    If the nodes of each graph are equal, no edit can change a type, so nothing is missing.
    """
    if _has_one_hot_columns(x):
        return True
    distinct = len(np.unique(x, axis=0))
    if 1 < distinct <= len(x) / _NODES_PER_ROW:
        return True
    first = np.repeat(starts[:-1], np.diff(starts))
    return bool((x == x[first]).all())


def _has_one_hot_columns(x: NDArray[np.float32]) -> bool:
    """Whether exactly one of a run of columns is 1 in every row."""
    if not 2 <= x.shape[1] <= _MAX_COLUMNS:
        return False
    is_binary = ((x == 0) | (x == 1)).all(axis=0)  # [column]
    sums = np.pad(np.where(is_binary, x, 0).astype(np.int64).cumsum(axis=1), ((0, 0), (1, 0)))
    measured = np.pad(np.cumsum(~is_binary), (1, 0))
    for first in range(x.shape[1] - 1):
        ends = np.arange(first + 2, x.shape[1] + 1)
        ends = ends[measured[ends] == measured[first]]
        if (sums[:, ends] - sums[:, [first]] == 1).all(axis=0).any():
            return True
    return False
