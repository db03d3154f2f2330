"""Chooses patterns one after the other, each for the graphs that are not covered yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.growing import Grower, Grown
from models.global_counterfactuals.typed_graphs import TypedGraph

_NEAR = 0.7  # radii; estimates below count for the density around a possible start
_MAX_STARTS = 1000  # graphs of each class that are considered


@dataclass
class PatternSearch:
    """Patterns grow from graphs of the class and from real graphs of the wanted class."""

    grower: Grower
    real: list[TypedGraph]  # graphs of the wanted class
    config: GlobalConfig
    generator: torch.Generator
    is_stopped: bool = False  # whether `run` ended early

    def run(
        self, should_stop: Callable[[], bool], on_step: Callable[[int, int], None]
    ) -> list[Grown]:
        pool: list[Grown] = []
        chosen: list[Grown] = []
        groups = [self._seeds(self.grower.population.graphs), self._seeds(self.real)]
        steps = 2 * self.config.count
        for number in range(self.config.count):
            open_ = _open(chosen, self.grower.population.count)
            for group in groups:
                for start in group.taken(open_, self.config.seeds):
                    if should_stop():
                        self.is_stopped = True
                        return chosen
                    grown = self.grower.grow(start, open_)
                    if grown is not None:
                        pool.append(grown)
            best = max(pool, key=lambda one: int((one.covered & open_).sum()), default=None)
            if best is None or not bool((best.covered & open_).any()):
                break
            chosen.append(best)
            on_step(number + 1, steps)
        for number in range(len(chosen)):
            if should_stop():
                self.is_stopped = True
                return chosen
            rest = [one for place, one in enumerate(chosen) if place != number]
            open_ = _open(rest, self.grower.population.count)
            grown = self.grower.grow(chosen[number].pattern, open_)
            now = int((chosen[number].covered & open_).sum())
            if grown is not None and int((grown.covered & open_).sum()) > now:
                chosen[number] = grown
            on_step(self.config.count + number + 1, steps)
        return chosen

    def _seeds(self, graphs: list[TypedGraph]) -> _Seeds:
        some = torch.randperm(len(graphs), generator=self.generator)[:_MAX_STARTS].sort().values
        starts = [graphs[place] for place in some.tolist()]
        near = torch.zeros(len(starts), self.grower.population.count, dtype=torch.bool)
        for place, start in enumerate(starts):
            allowed = self.config.radius * (self.grower.population.sizes + start.size)
            near[place] = self.grower.population.estimates(start) < _NEAR * allowed
        return _Seeds(starts, near)


@dataclass
class _Seeds:
    """Graphs to start from, and the graphs of the population that are probably near to each."""

    starts: list[TypedGraph]
    near: Tensor  # [start, graph] bool

    def taken(self, open_: Tensor, count: int) -> list[TypedGraph]:
        """Starts with many open graphs around them, no two alike; they are not taken again."""
        left = open_.clone()
        untried = torch.ones(len(self.starts), dtype=torch.bool)
        chosen: list[TypedGraph] = []
        for _ in range(min(count, len(self.starts))):
            density = (self.near & left).sum(dim=1).masked_fill(~untried, -1)
            best = int(density.argmax())
            chosen.append(self.starts[best])
            untried[best] = False
            left &= ~self.near[best]
        self.starts = [self.starts[place] for place in untried.nonzero()[:, 0].tolist()]
        self.near = self.near[untried]
        return chosen


def _open(chosen: Sequence[Grown], count: int) -> Tensor:
    """Graphs that no pattern covers: [graph] bool."""
    open_ = torch.ones(count, dtype=torch.bool)
    for one in chosen:
        open_ &= ~one.covered
    return open_
