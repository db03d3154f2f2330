"""The command line; each command has its own module in a room of `d4explain.cli.commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from d4explain.cli.exit_codes import exit_code
from d4explain.cli.output.terminal import messages, print_line
from d4explain.contracts.errors import DomainError
from d4explain.errors import D4Error

_ROOMS = {  # folder of `d4explain.cli.commands`: the commands in it
    "local": ("up", "demo", "doctor"),
    "inputs": ("export", "register", "gnns", "datasets", "upload", "denoisers", "mlflow"),
    "answers": (
        "predict", "explain", "explain-global", "explanations", "jobs", "metadata", "links",
        "verify",
    ),
    "evaluating": ("evaluations", "comparisons", "gate"),
    "administration": (
        "keys", "webhooks", "holds", "quotas", "retention", "signing-keys", "audit-log",
    ),
}  # fmt: skip
COMMANDS = {name: room for room, names in _ROOMS.items() for name in names}
PROGRAM = "d4explain"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; an expected error prints one line and has an exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command_app(argv)(args=argv, prog_name=PROGRAM)
    except D4Error as error:
        _exit_with_error(error, error.hint)
    except DomainError as error:  # such as a setting that cannot be parsed
        _exit_with_error(error, None)


def command_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Load the requested command only, or all commands for the help: imports take time."""
    requested = [name for name in arguments[:1] if name in COMMANDS]
    app = typer.Typer(
        name=PROGRAM,
        help="Explain graph neural networks: which edits change a prediction, "
        "and which patterns show a class.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_general_options)
    for name in requested or COMMANDS:
        attribute = name.replace("-", "_")
        module = import_module(f"d4explain.cli.commands.{COMMANDS[name]}.{attribute}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, attribute))
    return app


def _print_version(given: bool) -> None:
    if given:
        print_line(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


def _general_options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """The options before the command."""


def _exit_with_error(error: Exception, hint: str | None) -> None:
    console = messages()
    console.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
    if hint:
        console.print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
    sys.exit(exit_code(error))
