"""Group commit: what arrives while one transaction is written goes together into the next.

Clients that ask again once they are answered come back one after the other. A group of the first
of them would leave the others to a second one, and a group costs much by itself: statements, syncs,
a thread that begins anew. So those who were there a moment ago are waited for, no longer than the
last group took and never long.
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

_MOST = 64  # of one group: one that fails may be written item by item, and others wait for that
_PATIENCE = 0.05  # seconds, at most, that a group waits for those who may come back


class MiscountError(RuntimeError):
    """A group was written, and nobody can say whose its results are."""

    def __init__(self, results: int, items: int) -> None:
        super().__init__(f"a group of {items} was given {results} results")


class GroupCommit(Generic[Item, Result]):
    """One thread writes for all who submit: one who comes alone at once, many of them together.

    `write` gives each item of a group its result, in order, once they are committed. An error of
    the kinds `shared` is that of the whole group: to ask again for each item would make an outage
    as many times as long, and write twice what a lost connection had committed. If `write` raises
    anything else, it has written nothing, and every item is tried by itself: the error of one is
    then not that of its group.
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
        """Done when the item is committed, or when it has failed, alone or with its group."""
        future: Future[Result] = Future()
        with self._changed:
            if self._closing:
                raise RuntimeError("the group commit is being closed")
            self._waiting.append((item, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def close(self) -> None:
        """Writes what waits and ends the thread; a later submission starts another one."""
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
            # Who has gone away by now is not written; from here on nobody can.
            group = [one for one in taken if one[1].set_running_or_notify_cancel()]
            if group:
                self._settle(group)
            patience = min(_PATIENCE, time.monotonic() - began)
            taken = self._take(len(group) + len(self._waiting), patience)

    def _take(self, expected: int, patience: float) -> list[tuple[Item, Future[Result]]]:
        """The next group, as soon as so many are there or patience is over; none: it is closed."""
        wanted = min(expected, _MOST)
        with self._changed:
            began = time.monotonic()
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if time.monotonic() - began <= _PATIENCE:  # else the others have gone
                self._changed.wait_for(
                    lambda: len(self._waiting) >= wanted or self._closing, timeout=patience
                )
            return [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]

    def _settle(self, group: Sequence[tuple[Item, Future[Result]]]) -> None:
        error = self._failure(group)
        if error is None:
            return
        if len(group) == 1 or isinstance(error, self._shared):
            _fail(group, error)
            return
        log.info("a group of %d is written one by one: %s", len(group), type(error).__name__)
        for place, one in enumerate(group):
            error = self._failure([one])
            if error is None:
                continue
            if isinstance(error, self._shared):
                _fail(group[place:], error)
                return
            _fail([one], error)

    def _failure(self, group: Sequence[tuple[Item, Future[Result]]]) -> BaseException | None:
        """None once all have their results; the thread outlives whatever `write` does."""
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
