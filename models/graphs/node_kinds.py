"""Whether feature rows are node kinds, such as elements, or measurements."""

from __future__ import annotations

import torch
from torch import Tensor


def are_categories(rows: Tensor) -> bool:
    """Whether [node, feature] rows repeat so often that they are node kinds."""
    return 2 * len(torch.unique(rows, dim=0)) <= len(rows)
