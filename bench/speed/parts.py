"""The parts of the speed bench, by name: each is measured by a function of its own module."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.speed import mmd
from bench.speed.api import load, requests
from bench.speed.large import measure as large
from bench.speed.section import Figures, Say, Section
from bench.speed.training import steps

Measure = Callable[[bool, int, Say], Section[Figures]]  # short, seed, say

PARTS: Mapping[str, Measure] = {
    "steps": steps.measure,
    "mmd": mmd.measure,
    "load": load.measure,
    "large": large.measure,
    "requests": requests.measure,
}
