"""Group commit: what arrives while one transaction is written goes together into the next."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 64  # of one group: one that fails is written item by item, and others wait for that


class GroupCommit(Generic[Item, Result]):
    """One thread writes for all who submit: a single one at once, many of them together.

    `write` gives each item of a group its result, in order, once they are committed. If it
    raises, it has written nothing, and every item is tried by itself: the error of one is then
    not that of its group.
    """

    def __init__(
        self, write: Callable[[Sequence[Item]], Sequence[Result]], name: str = "group-commit"
    ) -> None:
        self._write = write
        self._name = name
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def submit(self, item: Item) -> Future[Result]:
        """Done when the item is committed, or when it has failed alone."""
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
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                taken = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
            if not taken:
                return
            # Who has gone away by now is not written; from here on nobody can.
            group = [one for one in taken if one[1].set_running_or_notify_cancel()]
            if group:
                self._settle(group)

    def _settle(self, group: Sequence[tuple[Item, Future[Result]]]) -> None:
        try:
            results = self._write([item for item, _ in group])
        except BaseException as error:
            if len(group) == 1:
                group[0][1].set_exception(error)
                return
            log.info("a group of %d is written one by one: %s", len(group), type(error).__name__)
            for one in group:
                self._settle([one])
            return
        for (_, future), result in zip(group, results, strict=True):
            future.set_result(result)
