"""`d4explain`: the command line; each command has its module in `d4explain.commands`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from rich.markup import escape

from d4explain.api_errors import ApiError, UnreachableError
from d4explain.command_errors import CommandError
from d4explain.commands import demo, doctor, explain, export, jobs, register, up
from d4explain.terminal import messages
from store.errors import SettingsError

app = typer.Typer(
    name="d4explain",
    help="Explains graph neural networks: what would change an answer, what a class looks like.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command("export")(export.export)
app.command("register")(register.register)
app.command("explain")(explain.explain)
app.add_typer(jobs.app, name="jobs")
app.command("doctor")(doctor.doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; whatever a person can act on is one line and exit code 1."""
    try:
        app(args=None if arguments is None else list(arguments))
    except CommandError as error:
        _complain(error.message, error.hint)
    except UnreachableError as error:
        _complain(str(error), "start the stack with `d4explain up`, or name it with --url")
    except (ApiError, SettingsError) as error:
        _complain(str(error), None)


def _complain(message: str, hint: str | None) -> None:
    console = messages()
    console.print(f"[bold red]Error:[/] {escape(message)}", soft_wrap=True)
    if hint:
        console.print(f"[dim]{escape(hint)}[/]", soft_wrap=True)
    sys.exit(1)
