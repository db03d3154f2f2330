"""Group commit: items that arrive during one transaction are written together in the next.

A group has fixed costs (statements, syncs, a thread switch), and clients that wait for an answer
submit again one after the other. So the writer waits briefly for as many items as it had before, at
most as long as the last group took (measured in decision 12).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_GROUP = 64  # a failed group may be written item by item while the next group waits
_MAX_WAIT_SECONDS = 0.05  # that a group waits for more items


class MiscountError(RuntimeError):
    """`write` returned too many or too few results, so they cannot be matched to the items."""

    def __init__(self, results: int, items: int) -> None:
        super().__init__(f"write returned {results} results for a group of {items} items")


class GroupCommit(Generic[Item, Result]):
    """One thread writes for all callers: a single item at once, waiting items as a group.

    `write` commits a group and returns one result per item, in order. If it raises an error of the
    types in `shared`, the whole group fails: retrying each item would multiply the length of an
    outage, and could write items twice that a lost connection had committed. If `write` raises any
    other error, it has written nothing; each item is then written on its own, so that one bad item
    does not fail the others.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Sequence[Result]],
        name: str = "group-commit",
        *,
        shared: tuple[type[Exception], ...] = (),
    ) -> None:
        self._write = write
        self._name = name
        self._shared = (*shared, MiscountError)
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def submit(self, item: Item) -> Future[Result]:
        """Returns a future that is done when the item is committed or has failed."""
        future: Future[Result] = Future()
        with self._changed:
            if self._closing:
                raise RuntimeError("the group commit is closing")
            self._waiting.append((item, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def close(self) -> None:
        """Writes the waiting items and ends the thread; a later `submit` starts a new one."""
        with self._changed:
            self._closing = True
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join()
        with self._changed:
            self._thread = None
            self._closing = False

    def _run(self) -> None:
        taken = self._take(1, 0.0)
        while taken:
            began = time.monotonic()
            # Skip canceled items; from here on an item cannot be canceled.
            group = [entry for entry in taken if entry[1].set_running_or_notify_cancel()]
            if group:
                self._settle(group)
            max_wait = min(_MAX_WAIT_SECONDS, time.monotonic() - began)
            taken = self._take(len(group) + len(self._waiting), max_wait)

    def _take(self, expected: int, max_wait: float) -> list[tuple[Item, Future[Result]]]:
        """Waits for `expected` items, at most `max_wait` after the first; empty if closed."""
        wanted = min(expected, _MAX_GROUP)
        with self._changed:
            began = time.monotonic()
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if time.monotonic() - began <= _MAX_WAIT_SECONDS:  # else the other clients have left
                self._changed.wait_for(
                    lambda: len(self._waiting) >= wanted or self._closing, timeout=max_wait
                )
            return [self._waiting.popleft() for _ in range(min(_MAX_GROUP, len(self._waiting)))]

    def _settle(self, group: Sequence[tuple[Item, Future[Result]]]) -> None:
        error = self._try_write(group)
        if error is None:
            return
        if len(group) == 1 or isinstance(error, self._shared):
            _fail(group, error)
            return
        log.info("writing a group of %d one by one: %s", len(group), type(error).__name__)
        for position, entry in enumerate(group):
            error = self._try_write([entry])
            if error is None:
                continue
            if isinstance(error, self._shared):
                _fail(group[position:], error)
                return
            _fail([entry], error)

    def _try_write(self, group: Sequence[tuple[Item, Future[Result]]]) -> BaseException | None:
        """Returns the error, or None once all items have results; the thread survives any error."""
        try:
            results = self._write([item for item, _ in group])
            if len(results) != len(group):
                raise MiscountError(len(results), len(group))
        except BaseException as error:
            return error
        for (_, future), result in zip(group, results, strict=True):
            future.set_result(result)
        return None


def _fail(group: Sequence[tuple[Item, Future[Result]]], error: BaseException) -> None:
    for _, future in group:
        future.set_exception(error)
