"""Options that several commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from d4explain.client.options import ListFilters, TimeFilters
from d4explain.errors import CommandError

Url = Annotated[
    str | None,
    typer.Option(
        help="Address of the API; default: D4_URL, then the running stack of the data folder."
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")
]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of rows.")]
Gnn = Annotated[
    str, typer.Option(help="The GNN: its id, name@version, name@alias, or name for the newest.")
]
GnnFilter = Annotated[str | None, typer.Option("--gnn", help="Only those of this GNN.")]
Dataset = Annotated[
    str, typer.Option(help="The reference set: its id, name@version, or name for the newest.")
]
Timeout = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds to wait; the job goes on afterwards. Default: no limit."),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Return at once, with the id of the job's result.")
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="A note of yours on what is created: a text, a number, true or false; may be "
        "repeated.",
        show_default=False,
    ),
]
MetadataChanges = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="Change metadata: KEY=VALUE, or KEY= to remove it; may be repeated.",
        show_default=False,
    ),
]
MetadataFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="Only those with this metadata; may be repeated.",
        show_default=False,
    ),
]
CreatedAfter = Annotated[
    str | None,
    typer.Option(
        help="Only those from this time on: a date (00:00 UTC), or a time with its zone.",
        show_default=False,
    ),
]
CreatedBefore = Annotated[
    str | None, typer.Option(help="Only those from before this time.", show_default=False)
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="KEY=VALUE; may be repeated.")]


def parse_pairs(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE texts."""
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise CommandError(f"{text!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


def parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parse KEY=VALUE texts whose values are numbers or words."""
    return {key: _number_or_text(value) for key, value in parse_pairs(texts).items()}


def _number_or_text(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) and math.isfinite(value) else text


def list_filters(
    metadata: Sequence[str] | None, created_after: str | None, created_before: str | None
) -> ListFilters:
    """What a list is filtered by; the API compares metadata by their texts."""
    return {"metadata": parse_pairs(metadata), **times(created_after, created_before)}


def times(created_after: str | None, created_before: str | None) -> TimeFilters:
    filters: TimeFilters = {}
    if created_after is not None:
        filters["created_after"] = created_after
    if created_before is not None:
        filters["created_before"] = created_before
    return filters


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE texts; KEY= removes a key."""
    parsed = parse_settings(texts)
    return {key: None if value == "" else value for key, value in parsed.items()}


def given(**options: Any) -> dict[str, Any]:
    """Those of the options that the user gave; the API has the defaults of the others."""
    return {name: value for name, value in options.items() if _is_given(value)}


def _is_given(value: Any) -> bool:
    """Whether this is not the value of an option that was left out; 0 is a value."""
    is_empty = isinstance(value, list | tuple | dict) and not value
    return value is not None and value is not False and not is_empty


def refuse(options: Mapping[str, Any], reason: str) -> None:
    """Refuse options that would have no effect."""
    flags = [f"--{name.replace('_', '-')}" for name in given(**options)]
    if flags:
        verb = "are" if len(flags) > 1 else "is"
        raise CommandError(f"{' and '.join(flags)} {verb} {reason}")
