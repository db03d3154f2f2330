"""JSON bodies read strictly: UTF-8, finite numbers, no duplicate keys, no lone surrogates."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from service.http.faults import MAX_FAULTS, Fault, InvalidRequestError, faults_of, pointer, shown

Model = TypeVar("Model", bound=BaseModel)

# Byte patterns of values that need a full check: escaped surrogates, exponents of three digits,
# integers beyond 64 bits. All digits are mapped to 0 before the search, which is much faster than a
# regular expression.
_SHAPES = bytes.maketrans(b"123456789DE", b"000000000de")
_SUSPECT = (rb"\ud", b"e000", b"e+000", b"0" * 19)
_MAX_INTEGER = 2**63 - 1


class MalformedJsonError(Exception):
    """The body is not JSON; the message names line and column."""


class _Repeated(dict[str, object]):
    """An object with a duplicate key, reported by `_odd_values`."""

    key: str = ""


def parse_json(body: bytes) -> object:
    """Parses the body; raises `MalformedJsonError`, or `InvalidRequestError` with pointers."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        column = error.start - (body.rfind(b"\n", 0, error.start) + 1) + 1
        raise MalformedJsonError(f"line {line}, column {column}: the body is not UTF-8") from error

    odd = _looks_odd(body)

    def constant(_: str) -> float:
        nonlocal odd
        odd = True
        return math.nan

    def pairs(members: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal odd
        found = dict(members)
        if len(found) == len(members):
            return found
        odd = True
        repeated = _Repeated(found)
        keys = [key for key, _ in members]
        repeated.key = next(key for key in keys if keys.count(key) > 1)
        return repeated

    try:
        document = json.loads(text, parse_constant=constant, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise MalformedJsonError(message) from error
    except RecursionError as error:
        raise MalformedJsonError("the document is nested too deeply") from error
    except ValueError as error:  # Python's own limit on the digits of an integer
        raise MalformedJsonError("the document holds a number of thousands of digits") from error
    if odd:
        faults = [fault for fault, _ in zip(_odd_values(document), range(MAX_FAULTS), strict=False)]
        if faults:
            raise InvalidRequestError(faults)
    return document


def _looks_odd(body: bytes) -> bool:
    shapes = body.translate(_SHAPES)
    return any(sign in shapes for sign in _SUSPECT)


def parse_model(body: bytes, model: type[Model]) -> Model:
    """The body as a strict model: no coercion, no unknown fields."""
    document = parse_json(body)
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        raise InvalidRequestError(faults_of(error, document)) from error


def _odd_values(document: object) -> Iterator[Fault]:
    """Values that Python's JSON parser accepts and the API rejects.

    Uses an explicit stack, since the document may be deeply nested.
    """
    stack: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, _Repeated):
            yield Fault(pointer(*place), f"the key {shown(value.key)} appears more than once")
        if isinstance(value, dict):
            for key in value:
                if _has_surrogate(key):
                    yield Fault(pointer(*place), "a key holds a lone surrogate")
            stack.extend(((*place, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(
                ((*place, i), value[i])
                for i in range(len(value) - 1, -1, -1)
                if isinstance(value[i], (dict, list, str, float, int))
            )
        elif isinstance(value, str) and _has_surrogate(value):
            yield Fault(pointer(*place), "the text holds a lone surrogate")
        elif isinstance(value, float) and not math.isfinite(value):
            yield Fault(pointer(*place), "should be a finite number")
        elif isinstance(value, int) and abs(value) > _MAX_INTEGER:
            yield Fault(pointer(*place), "should be an integer of at most 64 bits")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
