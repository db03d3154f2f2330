"""Finds parts of a JSON document without parsing the rest.

A result may have tens of megabytes, and Python's parser blocks all other threads. NumPy finds the
boundaries of a part while other threads run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_CHUNK_BYTES = 2**18
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
# This bit turns [ into { and ] into }.
_BRACE_BIT, _OPENING, _CLOSING = 0x20, ord("{"), ord("}")


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
        """The elements of an array."""
        separators = [self.start, *self._commas(), self.end - 1]
        parts = [self._stripped(before + 1, after) for before, after in pairwise(separators)]
        return [] if len(parts) == 1 and parts[0].start == parts[0].end else parts

    def batches(self, size: int) -> Iterator[bytes]:
        """Splits an array into shorter arrays of about `size` bytes, or of one element."""
        separators = np.array([self.start, *self._commas(), self.end - 1])
        first = 0
        while first < len(separators) - 1:
            fitting = int(np.searchsorted(separators, separators[first] + size, side="right")) - 1
            last = max(fitting, first + 1)
            yield b"[" + self.data[separators[first] + 1 : separators[last]] + b"]"
            first = last

    def members(self) -> dict[str, JsonPart]:
        """The members of an object; their names must not contain escapes."""
        parts = {}
        for member in self.elements():
            quote = self.data.index(b'"', member.start + 1)
            colon = self.data.index(b":", quote)
            name = self.data[member.start + 1 : quote].decode()
            parts[name] = self._stripped(colon + 1, member.end)
        return parts

    def _stripped(self, start: int, end: int) -> JsonPart:
        while start < end and self.data[start : start + 1].isspace():
            start += 1
        while start < end and self.data[end - 1 : end].isspace():
            end -= 1
        return JsonPart(self.data, start, end)

    def _commas(self) -> Iterator[int]:
        """Positions of the commas between the elements of this array or object."""
        characters = np.frombuffer(self.data, dtype=np.uint8)
        depth, in_string = 0, 0
        first = self.start
        while first < self.end:
            last = min(first + _CHUNK_BYTES, self.end)
            while last < self.end and characters[last - 1] == _BACKSLASH:
                last += 1  # do not split an escape sequence
            chunk = characters[first:last]
            quotes = chunk == _QUOTE
            quotes[_escaped(chunk)] = False
            strings = (np.cumsum(quotes, dtype=np.int32) + in_string) & 1
            braces = chunk | _BRACE_BIT
            steps = (braces == _OPENING).view(np.int8) - (braces == _CLOSING).view(np.int8)
            steps[strings == 1] = 0
            levels = np.cumsum(steps, dtype=np.int32) + depth
            commas = (chunk == _COMMA) & (strings == 0) & (levels == 1)
            yield from (np.flatnonzero(commas) + first).tolist()
            depth, in_string, first = int(levels[-1]), int(strings[-1]), last


def _escaped(chunk: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Positions after a backslash that is not itself escaped."""
    backslashes = np.flatnonzero(chunk == _BACKSLASH)
    starts_run = np.diff(backslashes, prepend=-2) > 1
    run_start = np.maximum.accumulate(np.where(starts_run, backslashes, 0))
    escaped: NDArray[np.int64] = backslashes[(backslashes - run_start) % 2 == 0] + 1
    return escaped
