"""Errors in requests: where (a JSON pointer) and what, without repeating raw values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from d4explain.contracts.errors import pointer, printable
from d4explain.contracts.spec_checks.supported import UNSUPPORTED_FIELDS, task_fault

__all__ = [
    "MAX_FAULTS",
    "Fault",
    "Faults",
    "InvalidRequestError",
    "Place",
    "faults_of",
    "kind_of",
    "pointer",
    "reject",
    "shown",
    "too_many",
]

MAX_FAULTS = 20  # per response
_MAX_SHOWN = 10**18  # a posted number may have thousands of digits

Place = Literal["body", "query", "header"]


@dataclass(frozen=True)
class Fault:
    """One invalid value; `at` is a JSON pointer into the body, or a parameter or header name."""

    at: str
    detail: str
    place: Place = "body"


class InvalidRequestError(Exception):
    """The request is well-formed but invalid."""

    def __init__(self, faults: Sequence[Fault], detail: str | None = None) -> None:
        self.faults = tuple(faults[:MAX_FAULTS])
        self.detail = detail or _summary(self.faults)
        super().__init__(self.detail)


class Faults:
    """Collects faults; raises once there are `MAX_FAULTS`."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def add(self, at: str, detail: str) -> None:
        self._found.append(Fault(at, detail))
        if len(self._found) >= MAX_FAULTS:
            raise InvalidRequestError(self._found)

    def extend(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.add(fault.at, fault.detail)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        if self._found:
            raise InvalidRequestError(self._found)


def reject(at: str, detail: str, place: Place = "body") -> NoReturn:
    raise InvalidRequestError([Fault(at, detail, place)])


def shown(value: object) -> str:
    """A sent value, safe for a message: short, printable, quoted if text."""
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) < _MAX_SHOWN else "a number of more than 18 digits"
    kind = kind_of(value)
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def too_many(sent: int, what: str, allowed: int) -> str:
    """The message for graphs that exceed a limit of this deployment."""
    count = f"{sent:,}" if sent < _MAX_SHOWN else "more than 10^18"
    return f"the graph has {count} {what}; this deployment accepts at most {allowed:,}"


def kind_of(value: object) -> str:
    """The JSON name of a value's type."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def faults_of(
    error: ValidationError, document: object, at: str = "", known_fields: Sequence[str] = ()
) -> list[Fault]:
    """Pydantic's errors as faults with pointers into the document.

    Pydantic's locations also name union branches, which are not in the document; they are dropped.
    Faults of unknown fields name the most similar one of `known_fields`.
    """
    faults = []
    for detail in error.errors(include_url=False, include_input=False):
        pointer_to, sent = _located(detail, document)
        message = _message(detail) + _sent_instead(detail, sent)
        if detail["type"] == "extra_forbidden":
            message += _similar(str(detail["loc"][-1]), known_fields)
        faults.append(Fault(at + pointer_to, message))
    return list(dict.fromkeys(faults))[:MAX_FAULTS]


def _similar(name: str, known_fields: Sequence[str]) -> str:
    if name in known_fields:  # of another object
        return ""
    similar = get_close_matches(name[:80], known_fields, n=1, cutoff=0.75)
    return f"; is it `{similar[0]}`?" if similar else ""


def _sent_instead(detail: ErrorDetails, sent: object) -> str:
    """What was sent, if it has the wrong type or is not one of the choices."""
    if detail["type"] == "literal_error":
        return f"; got {shown(sent)}"
    if detail["type"].endswith("_type") and sent is not _MISSING:
        return f", is {kind_of(sent)}"
    return ""


_MISSING = object()


def _located(detail: ErrorDetails, document: object) -> tuple[str, object]:
    """The pointer to the fault, and the value there."""
    location = detail["loc"]
    tag = detail.get("ctx", {}).get("discriminator", "").strip("'")
    if tag.isidentifier():  # the discriminator itself is invalid
        location = (*location, tag)
    is_missing = detail["type"] in {"missing", "union_tag_not_found"}
    tokens: list[str | int] = []
    here = document
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and 0 <= step < len(here)
        ):
            here = here[step]  # type: ignore[index]
            tokens.append(step)
        elif last and is_missing and isinstance(here, dict):
            tokens.append(step)
            here = _MISSING
    return pointer(*tokens), here


# Pydantic names Python types; the client sent JSON.
_MESSAGES = {
    "missing": "is required",
    "union_tag_not_found": "is required",
    "extra_forbidden": "is not a known field",
    "model_type": "should be an object",
    "model_attributes_type": "should be an object",
    "dict_type": "should be an object",
    "list_type": "should be an array",
    "union_tag_invalid": "should be one of {expected_tags}",
    "too_short": "should have at least {min_length} items, has {actual_length}",
    "too_long": "should have at most {max_length} items, has {actual_length}",
}


# Field names of earlier versions.
_RENAMED: dict[tuple[int | str, ...], str] = {
    ("counterfactual", "sampler"): "explainer",
    ("class", "sampler"): "explainer",
    ("class", "nodes"): "node_count",
    ("class", "examples"): "example_count",
}


def _message(detail: ErrorDetails) -> str:
    new_name = _RENAMED.get(detail["loc"][-2:])
    if detail["type"] == "extra_forbidden" and new_name is not None:
        return f"is now called `{new_name}`"
    field = detail["loc"][-1] if detail["loc"] else ""
    if detail["type"] == "extra_forbidden" and field in UNSUPPORTED_FIELDS:
        return UNSUPPORTED_FIELDS[str(field)]
    if detail["type"] == "extra_forbidden" and detail["loc"][:-1] in (
        ("counterfactual",),
        ("class",),
        ("global",),
    ):
        return f"is not a known field of the kind '{detail['loc'][0]}'"
    known = _MESSAGES.get(detail["type"])
    if known is not None:
        return known.format(**detail.get("ctx", {})) + _why_no_kind(detail)
    return detail["msg"].removeprefix("Value error, ").replace("Input should", "should")


def _why_no_kind(detail: ErrorDetails) -> str:
    """Says what is supported to a question about a regression or a link."""
    if detail["type"] != "union_tag_invalid":
        return ""
    reason = task_fault(detail.get("ctx", {}).get("tag"))
    return "" if reason is None else f"; {reason}"


def _summary(faults: Sequence[Fault]) -> str:
    if not faults:
        return "The request cannot be accepted."
    first = faults[0]
    where = first.at or "the body"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}: {first.detail}{more}"
