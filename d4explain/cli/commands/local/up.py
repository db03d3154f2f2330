from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.options import Json
from d4explain.cli.output.terminal import messages, output, print_json
from d4explain.stack.source_tree import use_source_tree


def up(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder for the database, artifacts, queue and logs.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="A loopback address.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 picks any free port.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the API, workers and broker on this machine until Ctrl-C."""
    started = time.monotonic()
    use_source_tree()
    from d4explain.stack.supervisor import Stack  # noqa: PLC0415 - imports the store
    from store.settings import Settings  # noqa: PLC0415 - only from the source tree

    options = {"D4_DATA_DIR": data_dir, "D4_HOST": host, "D4_PORT": port}
    overrides = {name: str(value) for name, value in options.items() if value is not None}
    settings = Settings.from_environment({**os.environ, **overrides})

    def print_address(address: str) -> None:
        print_json({"address": address, "pid": os.getpid(), "data_dir": settings.data_dir})

    if as_json:
        Stack(settings, messages(), started, on_ready=print_address).run()
    else:
        Stack(settings, output(), started).run()
