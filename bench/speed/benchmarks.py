"""All speed benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.progress import OnProgress
from bench.speed import mmd
from bench.speed.api import first_answer, load, pages, requests
from bench.speed.large import measure as large
from bench.speed.section import Figures, Section
from bench.speed.training import final_answer, steps

Measure = Callable[[bool, int, OnProgress], Section[Figures]]  # short, seed, on_progress

SPEED_BENCHMARKS: Mapping[str, Measure] = {
    "steps": steps.measure,
    "mmd": mmd.measure,
    "load": load.measure,
    "large": large.measure,
    "requests": requests.measure,
    "first-answer": first_answer.measure,
    "final-answer": final_answer.measure,
    "pages": pages.measure,
}
