"""Collects edit sets such that none contains another."""

from __future__ import annotations

from collections.abc import Iterable

from models.graphs.base_edit_space import EditSet


class MinimalSets:
    """Keeps edit sets that contain no other kept set; add smaller sets first."""

    def __init__(self, edit_sets: Iterable[EditSet] = ()) -> None:
        self.kept: list[EditSet] = []
        # A subset's first member is a member of the superset, so few sets need a comparison.
        self._by_first_member: dict[int, list[frozenset[int]]] = {}
        for edits in sorted(set(edit_sets), key=lambda edits: (len(edits), edits)):
            self.add(edits)

    def add(self, edits: EditSet) -> None:
        if not self.covers(edits):
            self.kept.append(edits)
            self._by_first_member.setdefault(edits[0], []).append(frozenset(edits))

    def covers(self, edits: EditSet) -> bool:
        """Whether the set contains one of the kept sets."""
        members = frozenset(edits)
        return any(
            smaller <= members for pair in edits for smaller in self._by_first_member.get(pair, ())
        )
