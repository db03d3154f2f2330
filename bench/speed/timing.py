"""Interleaved timing, so that other load on the machine affects all candidates equally."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def clock() -> float:
    """CPU seconds with one torch thread, wall-clock seconds with several.

    CPU time is less sensitive to other load, but does not measure parallel work.
    """
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def fastest_times(*functions: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """Seconds of the fastest call of each function, after one warm-up call."""
    for call in functions:
        call()
    fastest = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, call in enumerate(functions):
            started = clock()
            call()
            fastest[index] = min(fastest[index], clock() - started)
    return tuple(fastest)
