"""`d4explain`: the command line; each command has its module in `d4explain.cli.main.commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from rich.markup import escape

from d4explain.cli.terminal import messages
from d4explain.errors import D4Error
from store.errors import SettingsError

COMMANDS = (
    "up", "demo", "export", "register", "gnns", "datasets", "upload", "explain", "jobs",
    "doctor",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; whatever a person can act on is one line and exit code 1."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _app(given)(args=given)
    except D4Error as error:
        _complain(str(error), error.hint)
    except SettingsError as error:
        _complain(str(error), None)


def _app(arguments: Sequence[str]) -> typer.Typer:
    """The command asked for, or all for the help; the others' imports would only cost time."""
    asked = [name for name in arguments[:1] if name in COMMANDS]
    app = typer.Typer(
        name="d4explain",
        help="Explains graph neural networks: what changes an answer, what a class looks like.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_no_options)
    for name in asked or COMMANDS:
        module = import_module(f"d4explain.cli.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _no_options() -> None:
    """Makes typer expect a command's name even where it knows only one command."""


def _complain(message: str, hint: str | None) -> None:
    console = messages()
    console.print(f"[bold red]Error:[/] {escape(message)}", soft_wrap=True)
    if hint:
        console.print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
    sys.exit(1)
