from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.input.files import require_folder_of, write_file
from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import print_json, print_line
from d4explain.client.client import Client

app = typer.Typer(help="Export who changed what.", no_args_is_help=True)


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="File to write, one entry per line.")],
    *,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save the audit log with its signed end, which `d4explain verify` checks offline."""
    require_folder_of(file)
    with Client(url) as client:
        content = client.audit_log()
    write_file(file, content)
    entries = content.count(b"\n") - 1
    if as_json:
        print_json({"file": file, "entries": entries})
    else:
        print_line(f"wrote {file} ({entries:,} entries)")
