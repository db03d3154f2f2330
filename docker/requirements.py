"""Print the requirements of the project with some extras.

Images install them before they copy the source: `python requirements.py worker postgres`, next to
pyproject.toml.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path


def requirements(pyproject: Path, extras: Iterable[str]) -> list[str]:
    """The base dependencies and those of the extras, each once, without the project itself."""
    project = tomllib.loads(pyproject.read_text())["project"]
    optional = project["optional-dependencies"]
    # An extra refers to others as "d4explain[server]".
    own_extras = re.compile(rf"{re.escape(project['name'])}\[([\w,-]+)\]")

    def expand(listed: Iterable[str]) -> Iterator[str]:
        for requirement in listed:
            if match := own_extras.fullmatch(requirement):
                for extra in match[1].split(","):
                    yield from expand(optional[extra])
            else:
                yield requirement

    named = (requirement for extra in extras for requirement in optional[extra])
    return list(dict.fromkeys(expand([*project["dependencies"], *named])))


if __name__ == "__main__":
    print(*requirements(Path("pyproject.toml"), sys.argv[1:]), sep="\n")
