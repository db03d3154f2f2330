"""The checks of `d4explain doctor`."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from d4explain.client.address import api_address
from d4explain.client.client import Client
from d4explain.client.errors import ApiError, UnreachableError
from d4explain.errors import CommandError
from d4explain.stack.broker import find_binary, redact_password, redis_problem
from d4explain.stack.folder_lock import running_stack
from d4explain.stack.installed_packages import missing_packages
from d4explain.stack.ports import listen_problem
from d4explain.stack.source_tree import has_server, use_source_tree

if TYPE_CHECKING:
    from store.settings import Settings


class Status(Enum):
    OK = "ok"
    NOTE = "note"  # not a problem, but worth knowing
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    name: str
    status: Status
    detail: str
    fix: str = ""


def run_checks(url: str | None = None) -> list[Check]:
    """Check this machine, the server if its source tree is here, and the API."""
    server = _server() if has_server() else _no_server()
    return [_python(), *server, *_api(url)]


def deployment_checks() -> list[Check]:
    """Check the database, broker, artifacts and workers that the settings name."""
    try:
        from store.maintenance.deployment import findings  # noqa: PLC0415 - not in the wheel
        from store.settings import Settings  # noqa: PLC0415
    except ImportError:
        raise CommandError(
            "this installation of d4explain has no server, only the client and export",
            hint="run it in a container of the deployment, or from the repository",
        ) from None
    return [
        Check(found.name, Status(found.status.value), found.detail, found.fix)
        for found in findings(Settings.from_environment())
    ]


def _server() -> Iterator[Check]:
    packages = _packages("server")
    yield packages
    if packages.status is Status.FAILED:
        return
    use_source_tree()
    from store.settings import Settings  # noqa: PLC0415 - only from the source tree

    settings = Settings.from_environment()
    yield _torch()
    yield _broker(settings)
    yield _data_folder(settings)
    yield _port(settings)


def _no_server() -> Iterator[Check]:
    yield _packages(None)
    detail = "not in this installation; it runs from the repository or the container images"
    yield Check("server", Status.NOTE, detail)


def _python() -> Check:
    supported = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()} (3.11 or newer is required)"
    return Check("Python", _status(supported), detail)


def _packages(extra: str | None) -> Check:
    missing = missing_packages(extra)
    detail = f"missing: {', '.join(missing)}" if missing else "all required packages are installed"
    return Check("packages", _status(not missing), detail)


def _torch() -> Check:
    """The version only: importing torch takes seconds."""
    try:
        detail = f"torch {version('torch')}, torch-geometric {version('torch-geometric')}"
    except PackageNotFoundError as error:
        detail = (
            f"{error.name} is not installed: pip install --editable '.[worker]' "
            "(workers need it, the API does not)"
        )
        return Check("torch", Status.FAILED, detail)
    return Check("torch", Status.OK, detail)


def _broker(settings: Settings) -> Check:
    if settings.redis_url:
        problem = redis_problem(settings.redis_url)
        url = redact_password(settings.redis_url)
        return Check("broker", _status(problem is None), problem or f"{url} answers")
    try:
        return Check("broker", Status.OK, str(find_binary()))
    except CommandError as error:
        return Check("broker", Status.FAILED, f"{error.message}: {error.hint}")


def _data_folder(settings: Settings) -> Check:
    folder = settings.data_dir
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check("data folder", Status.FAILED, f"{folder}: {error.strerror}")
    detail = str(folder) if existing == folder else f"{folder} (will be created)"
    return Check("data folder", Status.OK, detail)


def _port(settings: Settings) -> Check:
    stack = running_stack(settings.data_dir)
    if stack is not None:
        return Check("stack", Status.OK, f"runs as pid {stack.pid} at {stack.address}")
    problem = listen_problem(settings.host, settings.port)
    if problem is None:
        return Check("port", Status.OK, f"{settings.port} on {settings.host} is free")
    return Check("port", Status.FAILED, f"{problem}: set D4_PORT")


def _api(url: str | None) -> Iterator[Check]:
    address = api_address(url)
    try:
        with Client(address, timeout=5, attempts=1) as client:
            health = client.health()
    except UnreachableError:
        detail = f"not running at {address} (`d4explain up` starts it)"
        yield Check("API", Status.NOTE, detail)
        return
    except (ApiError, ValueError) as error:
        yield Check("API", Status.FAILED, f"{address} is not a d4explain API: {error}")
        return
    yield Check("API", Status.OK, f"answers at {address}")
    for name, check in health.checks.items():
        if name != "workers":
            yield Check(f"API: {name}", _status(check.ok), check.detail)
    workers = "; ".join(f"{','.join(item.queues)} on {item.device}" for item in health.workers)
    check = health.checks["workers"]
    yield Check("workers", _status(check.ok), f"{check.detail} ({workers or 'no live worker'})")


def _status(ok: bool) -> Status:
    return Status.OK if ok else Status.FAILED
