"""Group commit: waiting items are written together, and one bad item does not fail the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import group_commit
from store.group_commit import GroupCommit, MiscountError

SECONDS = 10


class Ledger:
    """Writes a whole group of numbers or nothing; negative numbers raise ValueError."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []  # tried
        self.kept: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def write(self, group: Sequence[int]) -> list[str]:
        self.groups.append(list(group))
        self.entered.set()
        assert self.open.wait(SECONDS)
        for number in group:
            if number < 0:
                raise ValueError(number)
        self.kept += group
        return [f"wrote {number}" for number in group]


def test_items_that_arrive_during_a_write_are_the_next_group() -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    first = commits.submit(0)
    assert ledger.entered.wait(SECONDS)
    others = [commits.submit(number) for number in range(1, 11)]
    assert not first.done()
    assert not any(other.done() for other in others)
    ledger.open.set()
    assert [one.result(SECONDS) for one in others] == [f"wrote {n}" for n in range(1, 11)]
    assert ledger.groups == [[0], list(range(1, 11))]
    commits.close()


@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(st.integers(-3, 20), max_size=150))
def test_every_item_gets_its_own_outcome(numbers: list[int]) -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    futures = [commits.submit(number) for number in numbers]
    ledger.open.set()
    for number, future in zip(numbers, futures, strict=True):
        if number < 0:
            assert str(future.exception(SECONDS)) == str(number)
        else:
            assert future.result(SECONDS) == f"wrote {number}"
    assert ledger.kept == [number for number in numbers if number >= 0]
    assert all(len(group) <= 64 for group in ledger.groups)
    commits.close()


def test_a_waiting_item_can_be_canceled_and_a_running_one_cannot() -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    under_way = commits.submit(0)
    assert ledger.entered.wait(SECONDS)
    waiting, other = commits.submit(1), commits.submit(2)
    assert not under_way.cancel()
    assert waiting.cancel()
    ledger.open.set()
    assert other.result(SECONDS) == "wrote 2"
    assert under_way.result(SECONDS) == "wrote 0"
    assert ledger.kept == [0, 2]
    commits.close()


def test_closing_writes_waiting_items_and_a_later_submit_starts_again() -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    futures = [commits.submit(number) for number in range(5)]
    closing = threading.Thread(target=commits.close)
    closing.start()
    ledger.open.set()
    closing.join(SECONDS)
    assert not closing.is_alive()
    assert all(future.done() for future in futures)
    assert commits.submit(5).result(SECONDS) == "wrote 5"
    commits.close()
    assert ledger.kept == list(range(6))


def test_a_returning_client_joins_the_waiting_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_MAX_WAIT_SECONDS", SECONDS)
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    first = commits.submit(0)
    assert ledger.entered.wait(SECONDS)
    others = [commits.submit(number) for number in (1, 2, 3)]
    time.sleep(0.5)  # as long as the next group may wait for a fourth
    ledger.open.set()
    assert first.result(SECONDS) == "wrote 0"
    again = commits.submit(4)
    assert [one.result(SECONDS) for one in (*others, again)] == [f"wrote {n}" for n in range(1, 5)]
    assert ledger.groups == [[0], [1, 2, 3, 4]]
    commits.close()


@pytest.mark.parametrize("after", ["nobody", "clients that left"])
def test_a_single_client_does_not_wait(after: str) -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    if after != "nobody":
        ledger.open.clear()
        several = [commits.submit(number) for number in (20, 21, 22, 23)]
        ledger.open.set()
        assert several[-1].result(SECONDS) == "wrote 23"
        time.sleep(2 * group_commit._MAX_WAIT_SECONDS)
    ledger.groups.clear()
    waited: list[bool] = []
    wait_for = commits._changed.wait_for

    def watched(condition: Callable[[], bool], timeout: float | None = None) -> bool:
        if timeout is not None:
            waited.append(not condition())
        return wait_for(condition, timeout)

    commits._changed.wait_for = watched  # type: ignore[method-assign]
    for number in range(5):
        assert commits.submit(number).result(SECONDS) == f"wrote {number}"
    commits.close()
    assert ledger.groups == [[number] for number in range(5)]
    assert waited
    assert not any(waited)


def test_the_wait_is_not_longer_than_the_last_group_took() -> None:
    ledger = Ledger()
    commits = GroupCommit(ledger.write)
    ledger.open.clear()
    several = [commits.submit(number) for number in range(4)]
    time.sleep(0.2)
    ledger.open.set()
    assert [one.result(SECONDS) for one in several] == [f"wrote {n}" for n in range(4)]
    began = time.monotonic()
    assert commits.submit(4).result(SECONDS) == "wrote 4"  # three more were expected
    assert time.monotonic() - began < 1
    commits.close()


def test_a_single_item_gets_its_error() -> None:
    commits = GroupCommit(Ledger().write)
    with pytest.raises(ValueError, match="-1"):
        commits.submit(-1).result(SECONDS)
    assert commits.submit(1).result(SECONDS) == "wrote 1"
    commits.close()


class OutageError(Exception):
    """An error of the whole group."""


class Failing(Ledger):
    """The n-th write raises an outage; earlier writes raise an error of one item."""

    def __init__(self, outage_at: int) -> None:
        super().__init__()
        self._outage_at = outage_at

    def write(self, group: Sequence[int]) -> list[str]:
        super().write(group)
        raise OutageError if len(self.groups) == self._outage_at else ValueError


@pytest.mark.parametrize("outage_at", [1, 2, 4])
def test_an_outage_fails_the_whole_group_without_further_writes(outage_at: int) -> None:
    ledger = Failing(outage_at)
    commits = GroupCommit(ledger.write, shared=(OutageError,))
    group: list[tuple[int, Future[str]]] = [(number, Future()) for number in range(8)]
    commits._settle(group)
    errors = [type(future.exception(0)) for _, future in group]
    alone = max(0, outage_at - 2)
    assert errors == [ValueError] * alone + [OutageError] * (8 - alone)
    assert len(ledger.groups) == outage_at


def test_too_few_results_fail_the_group_and_the_writer_continues() -> None:
    ledger = Ledger()
    commits: GroupCommit[int, str] = GroupCommit(lambda group: ledger.write(group)[:1])
    ledger.open.clear()
    first = commits.submit(0)
    assert ledger.entered.wait(SECONDS)
    several = [commits.submit(number) for number in (1, 2)]
    ledger.open.set()
    assert first.result(SECONDS) == "wrote 0"
    for one in several:
        with pytest.raises(MiscountError, match="write returned 1 results for a group of 2 items"):
            one.result(SECONDS)
    assert commits.submit(3).result(SECONDS) == "wrote 3"
    assert ledger.kept == [0, 1, 2, 3]  # and not again: they may be committed
    commits.close()
