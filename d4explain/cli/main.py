"""The command line; each command has its own module in `d4explain.cli.commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import typer
from rich.markup import escape

from d4explain.cli.terminal import messages
from d4explain.contracts.errors import DomainError
from d4explain.errors import D4Error

COMMANDS = (
    "up", "demo", "export", "register", "gnns", "datasets", "upload", "explain", "jobs",
    "doctor",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; an expected error prints one line and exits with code 1."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _app(argv)(args=argv)
    except D4Error as error:
        _exit_with_error(str(error), error.hint)
    except DomainError as error:  # such as a setting that cannot be parsed
        _exit_with_error(str(error), None)


def _app(arguments: Sequence[str]) -> typer.Typer:
    """Load the requested command only, or all commands for the help: imports take time."""
    requested = [name for name in arguments[:1] if name in COMMANDS]
    app = typer.Typer(
        name="d4explain",
        help="Explain graph neural networks: which edits change a prediction, "
        "and which patterns show a class.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_no_options)
    for name in requested or COMMANDS:
        module = import_module(f"d4explain.cli.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _no_options() -> None:
    """Make typer expect a command name even if only one command is loaded."""


def _exit_with_error(message: str, hint: str | None) -> None:
    console = messages()
    console.print(f"[bold red]Error:[/] {escape(message)}", soft_wrap=True)
    if hint:
        console.print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
    sys.exit(1)
