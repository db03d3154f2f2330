"""Cache of the margins of evaluated edit sets."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from hashlib import blake2b

from models.graphs.base_edit_space import LARGE_SET, EditSet


class MarginCache:
    """Margins by edit set; large sets that pruning tried are stored by digest.

    Pruning tries the n subsets of n - 1 edits of a set; storing them as tuples takes O(n²) memory.
    """

    def __init__(self) -> None:
        self.margins: dict[EditSet, float] = {}  # without the sets stored by digest
        self.widest = 0.0  # largest absolute margin of an allowed set
        self._by_digest: dict[bytes, float] = {}

    def add(self, edits: EditSet, margin: float) -> None:
        self.margins[edits] = margin
        self._widen(margin)

    def add_trial(self, edits: EditSet, margin: float) -> None:
        """As `add`, but stores a large set by digest."""
        if len(edits) <= LARGE_SET:
            self.add(edits, margin)
        else:
            self._by_digest[_digest(edits)] = margin
            self._widen(margin)

    def known(self, edit_sets: Iterable[EditSet]) -> dict[EditSet, float]:
        """Margins of the sets that are in the cache."""
        known = {}
        for edits in edit_sets:
            margin = self.margins.get(edits)
            if margin is None and len(edits) > LARGE_SET:
                margin = self._by_digest.get(_digest(edits))
            if margin is not None:
                known[edits] = margin
        return known

    def _widen(self, margin: float) -> None:
        if math.isfinite(margin):
            self.widest = max(self.widest, abs(margin))


def _digest(edits: EditSet) -> bytes:
    return blake2b(array("q", edits).tobytes(), digest_size=16).digest()
