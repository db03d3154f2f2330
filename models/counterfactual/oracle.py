"""Decides whether edit sets flip the GNN: in dense batches first, then with the sparse GNN."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.margin_cache import MarginCache
from models.diffusion.gnn_sensitivity import Sensitivity, gnn_sensitivity, toggle_slopes
from models.graphs.base_edit_space import LARGE_SET, BaseEditSpace, EditSet

_ROUNDING = 1e-3  # relative to the widest margin; far above the rounding errors of float32 sums
FORBIDDEN = float("-inf")  # the margin of a set that the rules do not allow


class StoppedError(Exception):
    """The caller asked to stop; the margins known so far stay cached."""


@dataclass(frozen=True)
class FlipGoal:
    """Any class but the one before, or exactly the target class."""

    before: int
    target: int | None

    def margin(self, scores: Tensor) -> Tensor:
        """Margin of [graph, class] logits or probabilities; a graph flips if its margin is > 0."""
        if self.target is None:
            wanted = _without(scores, self.before).amax(dim=1)
            return wanted - scores[:, self.before]
        return scores[:, self.target] - _without(scores, self.target).amax(dim=1)


class CounterfactualOracle:
    """Computes and caches margins of the edit sets of one graph, and counts the work."""

    def __init__(
        self,
        gnn: Gnn,
        space: BaseEditSpace,
        goal: FlipGoal,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.space = space
        self.goal = goal
        self.evaluations = 0  # graphs in forward passes of the GNN
        self.gradient_count = 0  # graphs in backward passes, once per differentiated number
        self.gnn = gnn
        self.device = device
        self._should_stop = should_stop
        self._cache = MarginCache()
        self._verified: dict[EditSet, Tensor] = {}
        self._per_pass = space.sets_per_pass(gnn)

    def margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Margins in logits, by the dense GNN if there is one; a forbidden set never flips."""
        return self._margins(edit_sets, self._cache.add)

    def trial_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """As `margins`, for pruning: large sets do not enter `flips` or `misses`."""
        return self._margins(edit_sets, self._cache.add_trial)

    def _margins(
        self, edit_sets: Sequence[EditSet], remember: Callable[[EditSet, float], None]
    ) -> list[float]:
        margin_of = self._cache.known(edit_sets)
        new = [edits for edits in dict.fromkeys(edit_sets) if edits not in margin_of]
        for edits, margin in margin_of.items():
            remember(edits, margin)
        for batch in self._passes(new):
            evaluated = dict.fromkeys(batch, FORBIDDEN)
            is_allowed = self.space.allowed(batch)
            allowed = [edits for edits, holds in zip(batch, is_allowed, strict=True) if holds]
            if allowed:
                with torch.inference_mode():
                    logits = self.space.logits(self.gnn, allowed, self.device)
                evaluated.update(zip(allowed, self.goal.margin(logits).tolist(), strict=True))
                self.evaluations += len(allowed)
            for edits, margin in evaluated.items():
                remember(edits, margin)
            margin_of |= evaluated
        return [margin_of[edits] for edits in edit_sets]

    def single_gains(self) -> dict[int, float]:
        """Margin gained by each allowed single edit that was evaluated, by pair."""
        (before,) = self.margins([()])
        return {
            edits[0]: margin - before
            for edits, margin in self._cache.margins.items()
            if len(edits) == 1 and margin > FORBIDDEN
        }

    def check_stop(self) -> None:
        if self._should_stop():
            raise StoppedError

    def logits(self) -> Tensor:
        """Logits of the unedited graph: [class]."""
        self.evaluations += 1
        with torch.inference_mode():
            return self.space.logits(self.gnn, [()], self.device)[0].cpu()

    def sensitivity(self, graphs: DenseGraphs) -> Sensitivity:
        """Logits and slopes of any graphs, counted as work."""
        sensitivity = gnn_sensitivity(self.gnn, graphs)
        self.evaluations += graphs.count
        self.gradient_count += graphs.count * sensitivity.backward_passes
        return sensitivity

    def gradients(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """First-order effect of one more toggle on the margin: [set, pair].

        0 if the GNN or the edit space has no dense form.
        """
        space = self.space.dense_form
        if space is None or not self.gnn.has_dense:
            return torch.zeros(len(edit_sets), self.space.count)
        rows = []
        for batch in self._passes(edit_sets):
            graphs = space.dense(batch).to(self.device)
            with torch.inference_mode(mode=False), torch.enable_grad():
                adjacency = graphs.adjacency.clone().requires_grad_()
                margin = self.goal.margin(self.gnn.dense(graphs.with_adjacency(adjacency)))
                effect = toggle_slopes(margin.sum(), adjacency)
            self.evaluations += len(batch)
            self.gradient_count += len(batch) if margin.requires_grad else 0
            rows.append(space.of_pairs(effect.cpu()))
        return torch.cat(rows)

    def verify(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """Probabilities of the discrete graphs by the sparse GNN: [set, class]."""
        known = {edits: self._verified[edits] for edits in edit_sets if edits in self._verified}
        new = [edits for edits in dict.fromkeys(edit_sets) if edits not in known]
        if new:
            probabilities = predict(self.gnn, self.space.apply_all(new), self.device)
            known.update(zip(new, probabilities, strict=True))
            self.evaluations += len(new)
            # Pruning verifies too many large sets to cache them all.
            small = [edits for edits in new if len(edits) <= LARGE_SET]
            self._verified.update((edits, known[edits]) for edits in small)
        return torch.stack([known[edits] for edits in edit_sets])

    def verified_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Margins in probability by the sparse GNN; they alone decide what is a counterfactual."""
        is_allowed = self.space.allowed(edit_sets)
        allowed = [edits for edits, holds in zip(edit_sets, is_allowed, strict=True) if holds]
        margin_of = dict.fromkeys(edit_sets, FORBIDDEN)
        if allowed:
            margins = self.goal.margin(self.verify(allowed)).tolist()
            margin_of.update(zip(allowed, margins, strict=True))
        return [margin_of[edits] for edits in edit_sets]

    def sure_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Cached margins that are far from the decision boundary, else verified margins.

        The dense and the sparse form differ by rounding only. Without a dense form every cached
        margin comes from the sparse GNN.
        """
        tolerance = _ROUNDING * max(1.0, self._cache.widest)
        if self.space.dense_form is None:
            tolerance = 0.0
        cached = self._cache.known(edit_sets)
        known = {edits: margin for edits, margin in cached.items() if abs(margin) > tolerance}
        unsure = [edits for edits in edit_sets if edits not in known]
        known.update(zip(unsure, self.verified_margins(unsure), strict=True))
        return [known[edits] for edits in edit_sets]

    def flips(self) -> list[EditSet]:
        """Every non-empty set that has flipped the GNN so far, smallest first.

        The empty set may flip by rounding if the input is near the decision boundary; it is never
        an answer.
        """
        return sorted(
            (edits for edits, margin in self._cache.margins.items() if edits and margin > 0),
            key=lambda edits: (len(edits), edits),
        )

    def misses(self, count: int) -> list[EditSet]:
        """The allowed, non-empty sets nearest to a flip so far, nearest first."""
        margin_of = self._cache.margins
        return sorted(
            (edits for edits, margin in margin_of.items() if edits and margin > FORBIDDEN),
            key=lambda edits: (-margin_of[edits], len(edits), edits),
        )[:count]

    def _passes(self, edit_sets: Sequence[EditSet]) -> Iterator[Sequence[EditSet]]:
        for start in range(0, len(edit_sets), self._per_pass):
            self.check_stop()
            yield edit_sets[start : start + self._per_pass]


def _without(scores: Tensor, column: int) -> Tensor:
    """The [graph, class] scores, with -∞ for one class."""
    others = scores.clone()
    others[:, column] = -torch.inf
    return others
