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
from service.http.access.key_lookup import KeyLookup
from service.http.bodies import LARGE_BODY_BYTES
from service.http.reading_process import ReadingProcess
from service.http.waiting import JobWatcher
from service.signer import Signer
from service.submission.explanation_submissions import Submissions
from store.queue.worker_calls import AskWorker
from store.store import Store

# One connection for each thread that may use the database, so that no request waits for one:
# anyio's 40, the threads that read bodies and draw, two for submissions, and one each for the job
# watcher, the dispatcher and housekeeping.
CONNECTIONS = 60

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Context:
    store: Store
    submissions: Submissions
    signer: Signer
    job_watcher: JobWatcher
    wake_dispatcher: Callable[..., None]  # call it with the queued jobs, or without arguments
    keys: KeyLookup
    ping_broker: Callable[[], bool] | None  # None without a broker
    ask_worker: AskWorker
    heartbeat_seconds: float = 15.0  # between comments on an idle event stream
    body_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    # Health routes have their own threads, so that busy routes cannot block them.
    health_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))
    # Two processes: a large graph takes minutes and must not block JSON bodies.
    body_process: ReadingProcess = field(default_factory=ReadingProcess)
    upload_process: ReadingProcess = field(default_factory=ReadingProcess)
    # Results are hashed before they are sent, which is slow for large ones.
    result_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    drawings: Drawings = field(default_factory=Drawings)
    # An audit report takes seconds of Python; more at once would slow all other requests.
    report_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

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


async def run_in_thread(
    function: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Runs a blocking call (database, files) outside the event loop."""
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))


async def run_in_health_thread(context: Context, function: Callable[[], Result]) -> Result:
    """Like `run_in_thread`, with the threads of the health routes."""
    return await anyio.to_thread.run_sync(function, limiter=context.health_threads)


async def handle_body(
    context: Context,
    size: int,
    function: Callable[Concatenate[Store, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Runs `function(store, …)` on a body of `size` bytes: in a thread, or a process if large."""
    return await _run_by_size(context, context.body_process, size, function, *args, **kwargs)


async def handle_upload(
    context: Context,
    size: int,
    function: Callable[Concatenate[Store, Arguments], Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Like `handle_body`, for the file of a large graph."""
    return await _run_by_size(context, context.upload_process, size, function, *args, **kwargs)


async def _run_by_size(
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
        partial(function, context.store, *args, **kwargs), limiter=context.body_threads
    )
