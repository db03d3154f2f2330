"""Parts of a JSON document, found without parsing the rest of it.

A parser holds the interpreter while it reads, and a result may have tens of megabytes; NumPy finds
the borders of a part while other threads go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_CHUNK = 2**18
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
# With this bit set, [ is { and ] is }.
_BRACE_BIT, _OPENED, _CLOSED = 0x20, ord("{"), ord("}")


@dataclass(frozen=True)
class JsonPart:
    """The value in `data[start:end]`; `data` is valid JSON."""

    data: bytes
    start: int
    end: int

    @classmethod
    def whole(cls, data: bytes) -> JsonPart:
        start = len(data) - len(data.lstrip())
        return cls(data, start, len(data.rstrip()))

    @property
    def text(self) -> bytes:
        return self.data[self.start : self.end]

    def elements(self) -> list[JsonPart]:
        """Of an array."""
        borders = [self.start, *self._commas(), self.end - 1]
        parts = [self._stripped(before + 1, after) for before, after in pairwise(borders)]
        return [] if len(parts) == 1 and parts[0].start == parts[0].end else parts

    def batches(self, size: int) -> Iterator[bytes]:
        """An array as several shorter ones, each of about `size` bytes or of one element."""
        borders = np.array([self.start, *self._commas(), self.end - 1])
        first = 0
        while first < len(borders) - 1:
            reach = int(np.searchsorted(borders, borders[first] + size, side="right")) - 1
            last = max(reach, first + 1)
            yield b"[" + self.data[borders[first] + 1 : borders[last]] + b"]"
            first = last

    def members(self) -> dict[str, JsonPart]:
        """Of an object whose names have no escapes."""
        found = {}
        for member in self.elements():
            closing = self.data.index(b'"', member.start + 1)
            colon = self.data.index(b":", closing)
            name = self.data[member.start + 1 : closing].decode()
            found[name] = self._stripped(colon + 1, member.end)
        return found

    def _stripped(self, start: int, end: int) -> JsonPart:
        while start < end and self.data[start : start + 1].isspace():
            start += 1
        while start < end and self.data[end - 1 : end].isspace():
            end -= 1
        return JsonPart(self.data, start, end)

    def _commas(self) -> Iterator[int]:
        """Where those between the elements of this array or object are."""
        characters = np.frombuffer(self.data, dtype=np.uint8)
        depth, in_string = 0, 0
        first = self.start
        while first < self.end:
            last = min(first + _CHUNK, self.end)
            while last < self.end and characters[last - 1] == _BACKSLASH:
                last += 1  # an escape is not to be cut
            chunk = characters[first:last]
            quotes = chunk == _QUOTE
            quotes[_escaped(chunk)] = False
            strings = (np.cumsum(quotes, dtype=np.int32) + in_string) & 1
            braces = chunk | _BRACE_BIT
            steps = (braces == _OPENED).view(np.int8) - (braces == _CLOSED).view(np.int8)
            steps[strings == 1] = 0
            levels = np.cumsum(steps, dtype=np.int32) + depth
            commas = (chunk == _COMMA) & (strings == 0) & (levels == 1)
            yield from (np.flatnonzero(commas) + first).tolist()
            depth, in_string, first = int(levels[-1]), int(strings[-1]), last


def _escaped(chunk: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Positions after a backslash that is not itself escaped."""
    slashes = np.flatnonzero(chunk == _BACKSLASH)
    begins = np.diff(slashes, prepend=-2) > 1
    run_start = np.maximum.accumulate(np.where(begins, slashes, 0))
    found: NDArray[np.int64] = slashes[(slashes - run_start) % 2 == 0] + 1
    return found
