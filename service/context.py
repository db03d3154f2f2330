"""What routes work with, built once in `create_app` and handed to them by FastAPI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from service.submissions import Submissions
from service.waiting import JobWatch
from store.opened import Store

# Threads that may use the database at once: anyio's own 40, those that read bodies and draw, and
# one each for submissions, waiting requests, the dispatcher and housekeeping. With as many
# connections no request waits for another one's.
CONNECTIONS = 60

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Context:
    store: Store
    submissions: Submissions
    watch: JobWatch
    nudge: Callable[..., None]  # tells the dispatcher that jobs were queued, and which if known
    broker_answers: Callable[[], bool] | None  # None: no broker is configured
    heartbeat_seconds: float = 15.0  # between signs of life on a quiet event stream
    # Large bodies take memory while they are read; this many at once.
    readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    large_readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))


async def context_of(request: Request) -> Context:
    # Not `def`: FastAPI would ask a thread for it.
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


ContextOf = Annotated[Context, Depends(context_of)]


async def in_thread(
    function: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """Runs what blocks (database, files) beside the event loop."""
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs))


async def reading_body(
    context: Context,
    function: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """As `in_thread`, for what parses a posted body."""
    return await anyio.to_thread.run_sync(
        partial(function, *args, **kwargs), limiter=context.readers
    )


async def reading_large(
    context: Context,
    function: Callable[Arguments, Result],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Result:
    """As `reading_body`, for large graphs, which are read one after the other."""
    return await anyio.to_thread.run_sync(
        partial(function, *args, **kwargs), limiter=context.large_readers
    )
