"""Strict JSON: UTF-8, finite numbers, 64-bit integers, no duplicate keys, no lone surrogates."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice

from d4explain.contracts.errors import DomainError, Fault, InvalidInput, pointer, printable

_MAX_FAULTS = 20
_MAX_INTEGER = 2**63 - 1
# Byte patterns of values that need a check: escaped surrogates, exponents of three digits, integers
# of 19 or more digits. All digits are first replaced by 0, because a regular expression would take
# as long as the parser.
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789DE", b"000000000de")
_SUSPICIOUS = (rb"\ud", b"e000", b"e+000", b"0" * 19)


class MalformedJsonError(DomainError):
    """The document is not JSON; the message names line and column."""


class _DuplicateKey(dict[str, object]):
    """An object with a duplicate key; `_faults` reports it together with its place."""

    key: str = ""


def parse_json(data: bytes) -> object:
    """Returns the document; raises `MalformedJsonError`, or `InvalidInput` with JSON pointers."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise MalformedJsonError(f"line {line}, column {column}: not valid UTF-8") from error

    is_suspicious = _looks_suspicious(data)

    def parse_constant(_: str) -> float:
        nonlocal is_suspicious
        is_suspicious = True
        return math.nan

    def parse_object(members: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_suspicious
        parsed = dict(members)
        if len(parsed) == len(members):
            return parsed
        is_suspicious = True
        duplicate = _DuplicateKey(parsed)
        keys = [key for key, _ in members]
        duplicate.key = next(key for key in keys if keys.count(key) > 1)
        return duplicate

    try:
        document: object = json.loads(
            text, parse_constant=parse_constant, object_pairs_hook=parse_object
        )
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise MalformedJsonError(message) from error
    except RecursionError as error:
        raise MalformedJsonError("the document is nested too deeply") from error
    except ValueError as error:  # Python limits the digits of an integer
        raise MalformedJsonError("the document contains a number of thousands of digits") from error
    if is_suspicious:
        faults = list(islice(_faults(document), _MAX_FAULTS))
        if faults:
            raise InvalidInput(_summary(faults), faults[0].pointer, faults=faults)
    return document


def _looks_suspicious(data: bytes) -> bool:
    zeroed = data.translate(_DIGITS_TO_ZERO)
    return any(pattern in zeroed for pattern in _SUSPICIOUS)


def _faults(document: object) -> Iterator[Fault]:
    """Values that Python's parser accepts but strict JSON rejects.

    An explicit stack avoids recursion: the document may be as deep as the parser allows.
    """
    stack: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, _DuplicateKey):
            key = json.dumps(printable(value.key), ensure_ascii=False)
            yield Fault(pointer(*place), f"the key {key} appears more than once")
        if isinstance(value, dict):
            for key in value:
                if _has_surrogate(key):
                    yield Fault(pointer(*place), "a key contains a lone surrogate")
            stack.extend(((*place, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(
                ((*place, i), value[i])
                for i in range(len(value) - 1, -1, -1)
                if isinstance(value[i], (dict, list, str, float, int))
            )
        elif isinstance(value, str) and _has_surrogate(value):
            yield Fault(pointer(*place), "the text contains a lone surrogate")
        elif isinstance(value, float) and not math.isfinite(value):
            yield Fault(pointer(*place), "should be a finite number")
        elif isinstance(value, int) and abs(value) > _MAX_INTEGER:
            yield Fault(pointer(*place), "should be an integer of at most 64 bits")


def _summary(faults: list[Fault]) -> str:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{first.pointer or 'the document'}: {first.detail}{more}"


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
