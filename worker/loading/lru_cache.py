"""A cache of loaded objects that is limited by their size in bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import cachetools

T = TypeVar("T")


@dataclass(frozen=True)
class _Entry:
    value: Any
    size_bytes: int


class LruCache:
    """Evicts the least recently used objects first.

    An object larger than the whole cache is not stored. With `keeps_newest` it is stored: it
    fills the cache alone until the next object replaces it.
    """

    def __init__(self, capacity_bytes: int, *, keeps_newest: bool = False) -> None:
        self._keeps_newest = keeps_newest
        self._entries: cachetools.LRUCache[Hashable, _Entry] = cachetools.LRUCache(
            capacity_bytes, getsizeof=lambda entry: entry.size_bytes
        )

    def get(self, key: Hashable, load: Callable[[], T], size: Callable[[T], int]) -> T:
        """Returns the cached object, or loads it and caches it."""
        entry = self._entries.get(key)
        if entry is not None:
            return cast(T, entry.value)
        value = load()
        size_bytes = size(value)
        if self._keeps_newest:
            size_bytes = min(size_bytes, self.capacity_bytes)
        if size_bytes <= self.capacity_bytes:
            self._entries[key] = _Entry(value, size_bytes)
        return value

    def clear(self) -> None:
        self._entries.clear()

    @property
    def capacity_bytes(self) -> int:
        return int(self._entries.maxsize)

    @property
    def used_bytes(self) -> int:
        return int(self._entries.currsize)
