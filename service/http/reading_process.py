"""Parses large bodies in a separate process.

Python's JSON parser blocks all other threads, and the parsed objects take ten times the memory of
the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from typing import Concatenate, ParamSpec, TypeVar

from anyio import CapacityLimiter

from store.settings import Settings
from store.store import Store

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_BODIES_PER_PROCESS = 32  # then a new process frees the memory


class ReadingProcess:
    """One process, started for the first large body and reused."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)
        self._pool: ProcessPoolExecutor | None = None

    async def run(
        self,
        settings: Settings,
        function: Callable[Concatenate[Store, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Runs `function(store, …)` there; arguments, result and errors must be picklable."""
        async with self._limiter:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, get_context("spawn"), max_tasks_per_child=_BODIES_PER_PROCESS
                )
            call = self._pool.submit(_run, settings, partial(function, **kwargs), args)
            try:
                outcome = await asyncio.wrap_future(call)
            except BrokenProcessPool:  # killed, perhaps for its memory; the next call starts anew
                self.close()
                raise
        if isinstance(outcome, _Raised):
            raise outcome.error()
        return outcome

    def close(self) -> None:
        """Stops the process; a later body starts another one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _Raised:
    """An exception to pickle; `pickle` alone would call its class with `args`."""

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
