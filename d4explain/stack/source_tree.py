"""Finds the source tree that the server runs from: the folder that contains this package.

The wheel has no server, because packages named `models` or `store` would clash with a user's own.
For the same reason the server's packages are never imported from the current folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from d4explain.errors import CommandError
from d4explain.stack.absolute_paths import absolute_search_path
from d4explain.stack.installed_packages import missing_packages

PACKAGE = Path(__file__).resolve().parents[1]
_SERVER_FILES = ("service/app.py", "worker/__main__.py", "store/settings.py")


def has_server(package: Path = PACKAGE) -> bool:
    return all((package.parent / file).is_file() for file in _SERVER_FILES)


def source_root(package: Path = PACKAGE) -> Path:
    """The folder with service/, worker/ and store/ next to this package."""
    if not has_server(package):
        raise CommandError(
            "this installation of d4explain has no server, only the client and export",
            hint="clone the repository and run `make serve` there, or use the container images",
        )
    return package.parent


def use_source_tree() -> Path:
    """Make `import store` find the server's package, not one in the current folder."""
    root = source_root()
    missing = missing_packages("server")
    if missing:
        raise CommandError(
            f"the server needs packages that are not installed: {', '.join(missing)}",
            hint=f"pip install --constraint {root / 'constraints.txt'} "
            f"--editable '{root}[embedded]'",
        )
    if sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))
    return root


def python_command(*arguments: str) -> tuple[str, ...]:
    """This Python, without the current folder on its path."""
    return (sys.executable, "-P", *arguments)


def python_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the source tree first on the path; grandchildren inherit it."""
    inherited = absolute_search_path(environment.get("PYTHONPATH", ""))
    path = str(source_root()) + (f"{os.pathsep}{inherited}" if inherited else "")
    return {**environment, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
