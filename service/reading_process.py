"""Parses large bodies in a process of their own.

Python's JSON reader keeps all other threads waiting until it is done, and the objects that it makes
of a body take ten times the body's memory. A process beside the API keeps both away from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_process
from anyio import CapacityLimiter

from store.opened import Store
from store.settings import Settings

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ReadingProcess:
    """One process at a time; it starts with the first large body and serves the next ones too."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)

    async def run(
        self,
        settings: Settings,
        function: Callable[Concatenate[Store, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """`function(store, …)` there; what it takes, returns and raises has to be picklable."""
        async with self._limiter:  # before the arguments are copied for the process
            outcome = await anyio.to_process.run_sync(
                _run, settings, partial(function, **kwargs), args
            )
        if isinstance(outcome, _Raised):
            raise outcome.error()
        return outcome


@dataclass(frozen=True)
class _Raised:
    """An error on its way between processes: `pickle` alone would call its class with `args`."""

    kind: type[Exception]
    args: tuple[object, ...]
    attributes: dict[str, object]

    def error(self) -> Exception:
        error = self.kind.__new__(self.kind)
        error.args = self.args
        error.__dict__.update(self.attributes)
        return error


def _run(
    settings: Settings, function: Callable[..., Result], args: tuple[object, ...]
) -> Result | _Raised:
    try:
        return function(_store(settings), *args)
    except Exception as error:
        return _Raised(type(error), error.args, vars(error))


@cache
def _store(settings: Settings) -> Store:
    return Store.open(settings, migrate=False)
