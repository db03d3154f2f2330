"""Finds required packages that are not installed."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version

_EXTRA = re.compile(r"""extra == ['"]([\w-]+)['"]""")


def missing_packages(extra: str | None = None) -> list[str]:
    """Missing packages of the base requirements and one extra; does not check versions."""
    return [name for name in _required(extra) if not _is_installed(name)]


def _required(extra: str | None) -> list[str]:
    try:
        requirements = requires("d4explain") or []
    except PackageNotFoundError:  # run from a source tree without an installation
        return []
    names = []
    for requirement in requirements:
        needed_by = _EXTRA.search(requirement)
        if needed_by is None or needed_by[1] == extra:
            names.append(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    return names


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
