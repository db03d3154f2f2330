"""The dependencies of routes, built once in `create_app` and injected by FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Concatenate, ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from service.drawing.drawing_queue import Drawings
from service.http.bodies import LARGE_BODY_BYTES
from service.http.reading_process import ReadingProcess
from service.http.waiting import JobWatcher
from service.submission.explanation_submissions import Submissions
from store.store import Store

# Threads that may use the database at once: anyio's own 40, those that read bodies and draw, two
# for submissions, and one each for waiting requests, the dispatcher and housekeeping. With as many
# connections, no request waits for a connection.
CONNECTIONS = 60

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Context:
    store: Store
    submissions: Submissions
    watch: JobWatcher
    wake_dispatcher: Callable[..., None]  # jobs were queued: those passed, or any
    broker_answers: Callable[[], bool] | None  # None without a broker
    heartbeat_seconds: float = 15.0  # between comments on an idle event stream
    readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    # Health routes have their own threads, so that busy routes cannot block them.
    health_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))
    # Two processes: a large graph takes minutes and must not block JSON bodies.
    body_process: ReadingProcess = field(default_factory=ReadingProcess)
    upload_process: ReadingProcess = field(default_factory=ReadingProcess)
    # Stored results are hashed before they are sent, which is slow for large ones.
    result_readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    drawings: Drawings = field(default_factory=Drawings)

    def close(self) -> None:
        """Stops the reading processes."""
        self.body_process.close()
        self.upload_process.close()


async def context_of(request: Request) -> Context:
    # Not `def`: FastAPI would run it in a thread.
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


ContextOf = Annotated[Context, Depends(context_of)]


async def in_thread(
    function: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Runs a blocking call (database, files) outside the event loop."""
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))


async def in_health_thread(context: Context, function: Callable[[], Result]) -> Result:
    """Like `in_thread`, with the threads of the health routes."""
    return await anyio.to_thread.run_sync(function, limiter=context.health_threads)


async def reading_body(
    context: Context,
    size: int,
    function: Callable[Concatenate[Store, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Parses a posted body of `size` bytes in a thread, or in a process if it is large."""
    return await _read(context, context.body_process, size, function, *args, **kwargs)


async def reading_upload(
    context: Context,
    size: int,
    function: Callable[Concatenate[Store, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Like `reading_body`, for the file of a large graph."""
    return await _read(context, context.upload_process, size, function, *args, **kwargs)


async def _read(
    context: Context,
    process: ReadingProcess,
    size: int,
    function: Callable[Concatenate[Store, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    if size > LARGE_BODY_BYTES:
        return await process.run(context.store.settings, function, *args, **kwargs)
    return await anyio.to_thread.run_sync(
        partial(function, context.store, *args, **kwargs), limiter=context.readers
    )
