"""What is remembered of the edit sets that were judged."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from hashlib import blake2b

from models.graphs.edits import LARGE_SET, EditSet


class MarginCache:
    """Margins by edit set; of large sets that are no answers only a digest stays.

    A set of n edits has n subsets of n - 1 edits, which pruning tries: kept as they are, they would
    take memory as n².
    """

    def __init__(self) -> None:
        self.margins: dict[EditSet, float] = {}  # of the sets that stay as they are
        self.widest = 0.0  # size of the greatest margin of a set that the rules allow
        self._by_digest: dict[bytes, float] = {}

    def add(self, edits: EditSet, margin: float) -> None:
        self.margins[edits] = margin
        self._widen(margin)

    def add_trial(self, edits: EditSet, margin: float) -> None:
        """The same, but a large set does not stay."""
        if len(edits) <= LARGE_SET:
            self.add(edits, margin)
        else:
            self._by_digest[_digest(edits)] = margin
            self._widen(margin)

    def known(self, edit_sets: Iterable[EditSet]) -> dict[EditSet, float]:
        """Margins of those among them that were tried."""
        found = {}
        for edits in edit_sets:
            margin = self.margins.get(edits)
            if margin is None and len(edits) > LARGE_SET:
                margin = self._by_digest.get(_digest(edits))
            if margin is not None:
                found[edits] = margin
        return found

    def _widen(self, margin: float) -> None:
        if math.isfinite(margin):
            self.widest = max(self.widest, abs(margin))


def _digest(edits: EditSet) -> bytes:
    return blake2b(array("q", edits).tobytes(), digest_size=16).digest()
