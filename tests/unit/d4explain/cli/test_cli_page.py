"""docs/cli.md matches the commands, the routes of the API and the exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from d4explain.cli.exit_codes import MEANINGS, ExitCode, exit_code
from d4explain.cli.main import command_app
from d4explain.client import errors
from d4explain.errors import CommandError, D4Error
from service.glossary.page import openapi_document

PAGE = Path(__file__).parents[4] / "docs" / "cli.md"
# Routes without a command, and why.
WITHOUT_COMMAND = {
    "GET /livez": "the supervisor of a process reads it; `doctor` asks /readyz",
    "GET /metrics": "Prometheus reads it",
    "GET /v1/metrics": "Prometheus reads it",
    "GET /v1/{noun}/{resource_id}/hold": "`holds list` shows all holds",
    "GET /v1/datasets/{dataset_id}/graphs": "the dashboard picks graphs; a caller has its own",
    "GET /v1/explanations/{explanation_id}/letter": "a page; the viewer links it",
    "GET /v1/explanations/{explanation_id}/report": "a page; the viewer links it",
    "GET /v1/explanations/{explanation_id}/trustyai": "a body for another service",
    "GET /v1/models/{model_name}": "for clients of KServe; `gnns get` shows the state",
    "POST /v1/models/{model_name}:explain": "for clients of KServe; `explain` asks the same",
    "POST /v1/gnns/{gnn_id}/graph-previews": "the dashboard draws graphs; `--svg` draws answers",
    "POST /v1/explanations/{explanation_id}/what-if": "the viewer asks; `predict` reads any graph",
    **{f"{method} /v1/session": "it is for browsers" for method in ("GET", "POST", "DELETE")},
}


def table(mark: str) -> list[list[str]]:
    """The cells of the rows below <!-- mark -->."""
    block = PAGE.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in block.splitlines()[2:]]
    return [[cell.strip() for cell in row] for row in rows]


def documented_routes() -> dict[str, set[str]]:
    """The routes of each command."""
    return {row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[2])) for row in table("commands")}


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All commands with their names, such as `gnns list`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{prefix}{name}", command


def all_commands() -> dict[str, Any]:
    return dict(commands(typer.main.get_command(command_app())))


def test_the_page_lists_every_command_once() -> None:
    listed = [row[0].strip("`") for row in table("commands")]
    assert sorted(listed) == sorted(all_commands())


def test_every_route_has_a_command() -> None:
    """A new route needs a command, or a reason above why it has none."""
    paths = openapi_document()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    with_command = set().union(*documented_routes().values())
    assert routes - with_command == set(WITHOUT_COMMAND)
    assert with_command <= routes


def test_every_command_has_json_and_every_option_a_help_text() -> None:
    for name, command in all_commands().items():
        flags = {flag for option in command.params for flag in option.opts}
        assert "--json" in flags, f"{name} has no --json"
        for option in command.params:
            is_named = option.param_type_name == "argument"
            assert is_named or option.help, f"{name} has no help for {option.opts}"


def test_the_page_lists_the_exit_codes() -> None:
    assert [[str(int(code)), text] for code, text in MEANINGS.items()] == table("exit codes")
    assert set(MEANINGS) == set(ExitCode)


def expected_errors(base: type[Exception]) -> Iterator[type[Exception]]:
    for kind in base.__subclasses__():
        yield kind
        yield from expected_errors(kind)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UnreachableError, 3),
        (errors.RefusedError, 4),
        (errors.RejectedGnnError, 5),
        (errors.UnsuccessfulJobError, 5),
        (errors.WaitTimeoutError, 6),
        (CommandError, 1),
    ],
)
def test_each_error_has_its_exit_code(kind: type[D4Error], code: int) -> None:
    assert exit_code(kind.__new__(kind)) == code


def test_no_error_of_the_client_is_forgotten() -> None:
    """A new error of the API must get a code of its own."""
    for kind in expected_errors(errors.ApiError):
        assert exit_code(kind.__new__(kind)) is not ExitCode.ERROR, kind
