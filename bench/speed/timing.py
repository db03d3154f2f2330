"""Times of things that are compared, taken in turns so that the machine's moods hit all alike."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def clock() -> float:
    """Seconds of this process: of its CPU where one thread computes, which neighbours disturb less.

    Several threads wait for each other at work: there only the wall clock tells.
    """
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def shortest(*measured: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """The seconds of each one's fastest call, all of them called once before."""
    for one in measured:
        one()
    best = [float("inf")] * len(measured)
    for _ in range(rounds):
        for place, one in enumerate(measured):
            began = clock()
            one()
            best[place] = min(best[place], clock() - began)
    return tuple(best)
