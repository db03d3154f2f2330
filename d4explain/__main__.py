"""The `d4explain` command."""

from __future__ import annotations

import sys

CLI_PACKAGES = ("rich", "typer")


def run() -> None:
    try:
        from d4explain.cli.main import main  # noqa: PLC0415 - the base install has no CLI packages
    except ModuleNotFoundError as error:
        if error.name not in CLI_PACKAGES:
            raise
        sys.exit(
            f"Error: the d4explain command needs the package {error.name!r}: "
            "pip install 'd4explain[cli]'"
        )
    main()


if __name__ == "__main__":
    run()
