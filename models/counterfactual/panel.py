"""What an answer is held against besides the GNN: witnesses, judges and the reference set."""

from __future__ import annotations

from dataclasses import dataclass

from d4explain.gnn.network import Gnn
from models.realism.reference_patterns import ReferencePatterns


@dataclass(frozen=True)
class Panel:
    """Selection witnesses take part in the search; judges only judge its answers.

    All GNNs are in eval mode and on the device of the explanation.
    """

    selection: tuple[Gnn, ...] = ()
    judges: tuple[Gnn, ...] = ()
    patterns: ReferencePatterns | None = None  # None if the reference set has none
    only_seen: bool = True  # believable answers contain only patterns of the reference set
