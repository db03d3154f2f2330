"""Keeps what was used last, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

T = TypeVar("T")


class LruCache:
    """Least recently used goes first; one thing that is larger than the whole shelf is not kept.

    With `keeps_newest` it is, alone, until something else is kept.
    """

    def __init__(self, capacity_bytes: int, *, keeps_newest: bool = False) -> None:
        self._capacity = capacity_bytes
        self._keeps_newest = keeps_newest
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        if key in self._kept:
            self._kept.move_to_end(key)
            return cast(T, self._kept[key][0])
        made = make()
        needed = size(made)
        if needed <= self._capacity or self._keeps_newest:
            self._kept[key] = (made, needed)
            self._bytes += needed
            while self._bytes > self._capacity and len(self._kept) > self._keeps_newest:
                _, (_, freed) = self._kept.popitem(last=False)
                self._bytes -= freed
        return made

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    @property
    def used_bytes(self) -> int:
        return self._bytes
