"""What `d4explain doctor` looks at."""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.errors import ApiError, UnreachableError
from d4explain.errors import CommandError
from d4explain.stack.broker import find_binary, problem_with, without_password
from d4explain.stack.folder_lock import running_stack
from d4explain.stack.ports import problem_listening
from store.settings import Settings


class Finding(Enum):
    GOOD = "good"
    NOTE = "note"  # fine, but a person may want to know
    BAD = "bad"


@dataclass(frozen=True)
class Check:
    what: str
    finding: Finding
    detail: str


def examine(url: str | None = None) -> list[Check]:
    settings = Settings.from_environment()
    return [
        _python(),
        _packages(),
        _torch(),
        _broker(settings),
        _data_folder(settings),
        _port(settings),
        *_api(url),
    ]


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    return Check("Python", _found(good), f"{platform.python_version()} (3.11 or newer is needed)")


def _packages() -> Check:
    """What pyproject.toml asks for; pip has seen to the versions."""
    missing = []
    for requirement in requires("d4explain") or []:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            version(name)
        except PackageNotFoundError:
            missing.append(name)
    words = f"missing: {', '.join(missing)}" if missing else "all that are needed"
    return Check("packages", _found(not missing), words)


def _torch() -> Check:
    """The version only: importing torch takes seconds."""
    try:
        found = f"torch {version('torch')}, torch-geometric {version('torch-geometric')}"
    except PackageNotFoundError as error:
        missing = f"{error.name} is not installed: pip install 'd4explain[worker]'"
        return Check("torch", Finding.BAD, f"{missing} (workers need it, the API does not)")
    return Check("torch", Finding.GOOD, found)


def _broker(settings: Settings) -> Check:
    if settings.redis_url:
        problem = problem_with(settings.redis_url)
        shown = without_password(settings.redis_url)
        return Check("broker", _found(problem is None), problem or f"{shown} answers")
    try:
        return Check("broker", Finding.GOOD, str(find_binary()))
    except CommandError as failure:
        return Check("broker", Finding.BAD, f"{failure.message}: {failure.hint}")


def _data_folder(settings: Settings) -> Check:
    folder = settings.data_dir
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check("data folder", Finding.BAD, f"{folder}: {error.strerror}")
    words = str(folder) if existing == folder else f"{folder} (will be made)"
    return Check("data folder", Finding.GOOD, words)


def _port(settings: Settings) -> Check:
    holder = running_stack(Path(settings.data_dir))
    if holder is not None:
        return Check("stack", Finding.GOOD, f"runs as pid {holder.pid} at {holder.address}")
    problem = problem_listening(settings.host, settings.port)
    if problem is None:
        return Check("port", Finding.GOOD, f"{settings.port} on {settings.host} is free")
    return Check("port", Finding.BAD, f"{problem}: set D4_PORT")


def _api(url: str | None) -> Iterator[Check]:
    address = api_address(url)
    try:
        with Client(address, timeout=5, attempts=1) as client:
            health = client.health()
    except UnreachableError:
        yield Check("API", Finding.NOTE, f"does not run at {address} (`d4explain up` starts it)")
        return
    except (ApiError, ValueError) as error:
        yield Check("API", Finding.BAD, f"{address} is not a d4explain API: {error}")
        return
    yield Check("API", Finding.GOOD, f"answers at {address}")
    for name, check in health.checks.items():
        if name != "workers":
            yield Check(f"API's {name}", _found(check.ok), check.detail)
    live = "; ".join(f"{','.join(item.queues)} on {item.device}" for item in health.workers)
    check = health.checks["workers"]
    yield Check("workers", _found(check.ok), f"{check.detail} ({live or 'none lives'})")


def _found(good: bool) -> Finding:
    return Finding.GOOD if good else Finding.BAD
