"""Does an edit set flip the GNN? Dense and batched while searching, sparse for the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, to_sparse
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.large.candidate_space import CandidateSpace
from models.counterfactual.margin_cache import MarginCache
from models.diffusion.gnn_sensitivity import Sensitivity, look, toggle_slopes
from models.graphs.edits import LARGE_SET, EditSet, EditSpace

# Numbers per dense GNN pass: about what stays in a core's cache at usual widths, and it bounds
# memory for large graphs.
_CELLS_PER_PASS = 2**18
_ROWS_PER_PASS = 2**16  # nodes and directed edges of a sparse pass, where there is no dense one
_SPARSE_PER_PASS = 64  # without a dense form: it is slower, so that it is asked to stop in time
_ROUNDING = 1e-3  # of a margin, by far more than float32 and a GNN's sums make of it
FORBIDDEN = float("-inf")  # the margin of a set that the rules do not allow


class StoppedError(Exception):
    """The caller asked to stop; what was found so far stays known."""


@dataclass(frozen=True)
class FlipGoal:
    """Any class but the one before, or exactly the target class."""

    before: int
    target: int | None

    def margin(self, scores: Tensor) -> Tensor:
        """How far [graph, class] scores (logits or probabilities) are past the flip: > 0 is one."""
        if self.target is None:
            wanted = _without(scores, self.before).amax(dim=1)
            return wanted - scores[:, self.before]
        return scores[:, self.target] - _without(scores, self.target).amax(dim=1)


class CounterfactualOracle:
    """Judges edit sets of one graph; remembers margins, flips and the work done."""

    def __init__(
        self,
        gnn: Gnn,
        space: EditSpace,
        goal: FlipGoal,
        device: torch.device,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.space = space
        self.goal = goal
        self.evaluations = 0  # graphs that went forward through the GNN
        self.gradient_count = 0  # graphs that went backward, once per number differentiated
        self.gnn = gnn
        self._device = device
        self._should_stop = should_stop
        self._tried = MarginCache()
        self._verified: dict[EditSet, Tensor] = {}
        # all edited graphs share one view of the features, however many there are
        self._per_pass = max(1, _CELLS_PER_PASS // max(space.graph.node_count, 1) ** 2)
        if not gnn.has_dense:
            self._per_pass = min(self._per_pass, _SPARSE_PER_PASS)
        if isinstance(space, CandidateSpace):
            rows = space.graph.node_count + 2 * space.graph.edge_count
            self._per_pass = max(1, min(_ROWS_PER_PASS // rows, _SPARSE_PER_PASS))

    def margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Margins by the dense GNN, if there is one; a set that the rules forbid never flips."""
        return self._margins(edit_sets, self._tried.add)

    def trial_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """The same while pruning: large sets are neither `flips` nor `misses` afterwards."""
        return self._margins(edit_sets, self._tried.add_trial)

    def _margins(
        self, edit_sets: Sequence[EditSet], remember: Callable[[EditSet, float], None]
    ) -> list[float]:
        margin_of = self._tried.known(edit_sets)
        new = [edits for edits in dict.fromkeys(edit_sets) if edits not in margin_of]
        for edits, margin in margin_of.items():
            remember(edits, margin)
        for some in self._passes(new):
            judged = dict.fromkeys(some, FORBIDDEN)
            verdicts = self.space.allowed(some)
            allowed = [edits for edits, verdict in zip(some, verdicts, strict=True) if verdict]
            if allowed:
                with torch.inference_mode():
                    logits = self._logits(allowed)
                judged.update(zip(allowed, self.goal.margin(logits).tolist(), strict=True))
                self.evaluations += len(allowed)
            for edits, margin in judged.items():
                remember(edits, margin)
            margin_of |= judged
        return [margin_of[edits] for edits in edit_sets]

    def single_gains(self) -> dict[int, float]:
        """What the single edits that were judged and are allowed do to the margin, by pair."""
        (before,) = self.margins([()])
        return {
            edits[0]: margin - before
            for edits, margin in self._tried.margins.items()
            if len(edits) == 1 and margin > FORBIDDEN
        }

    def check_stop(self) -> None:
        if self._should_stop():
            raise StoppedError

    def logits(self) -> Tensor:
        """Of the unedited graph: [class]."""
        self.evaluations += 1
        with torch.inference_mode():
            return self._logits([()])[0].cpu()

    def look(self, graphs: DenseGraphs) -> Sensitivity:
        """What the GNN says about graphs that need not be edits of the input."""
        view = look(self.gnn, graphs)
        self.evaluations += graphs.count
        self.gradient_count += graphs.count * view.backward_passes
        return view

    def _logits(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """[set, class]"""
        if isinstance(self.space, CandidateSpace):
            laid = to_sparse(self.space.apply_all(edit_sets)).to(self._device)
            answers: Tensor = self.gnn(laid)
            return answers
        return self.gnn.answers(self.space.dense(edit_sets).to(self._device))

    def gradients(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """First-order effect of one more toggle on the margin: [set, pair].

        0 where the GNN has no dense form to take it from, or the graph is too large for it.
        """
        if not self.gnn.has_dense or isinstance(self.space, CandidateSpace):
            return torch.zeros(len(edit_sets), self.space.count)
        rows = []
        for some in self._passes(edit_sets):
            graphs = self.space.dense(some).to(self._device)
            with torch.inference_mode(mode=False), torch.enable_grad():
                adjacency = graphs.adjacency.clone().requires_grad_()
                margin = self.goal.margin(self.gnn.dense(graphs.with_adjacency(adjacency)))
                effect = toggle_slopes(margin.sum(), adjacency)
            self.evaluations += len(some)
            self.gradient_count += len(some) if margin.requires_grad else 0
            rows.append(self.space.of_pairs(effect.cpu()))
        return torch.cat(rows)

    def verify(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """Probabilities of the discrete graphs by the sparse GNN: [set, class]."""
        known = {edits: self._verified[edits] for edits in edit_sets if edits in self._verified}
        new = [edits for edits in dict.fromkeys(edit_sets) if edits not in known]
        if new:
            probabilities = predict(self.gnn, self.space.apply_all(new), self._device)
            known.update(zip(new, probabilities, strict=True))
            self.evaluations += len(new)
            # while large sets are pruned there are too many of them to remember
            small = [edits for edits in new if len(edits) <= LARGE_SET]
            self._verified.update((edits, known[edits]) for edits in small)
        return torch.stack([known[edits] for edits in edit_sets])

    def verified_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """Margins in probability by the sparse GNN, which alone decide what is a counterfactual."""
        verdicts = self.space.allowed(edit_sets)
        allowed = [edits for edits, verdict in zip(edit_sets, verdicts, strict=True) if verdict]
        margin_of = dict.fromkeys(edit_sets, FORBIDDEN)
        if allowed:
            margins = self.goal.margin(self.verify(allowed)).tolist()
            margin_of.update(zip(allowed, margins, strict=True))
        return [margin_of[edits] for edits in edit_sets]

    def sure_margins(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """By the sparse GNN, except where the dense one is far from the border.

        Both forms differ by rounding, which is small beside the margins that were seen. Where no
        dense one is used, what is known is the sparse GNN's.
        """
        border = _ROUNDING * max(1.0, self._tried.widest)
        if isinstance(self.space, CandidateSpace):
            border = 0.0
        tried = self._tried.known(edit_sets)
        known = {edits: margin for edits, margin in tried.items() if abs(margin) > border}
        doubtful = [edits for edits in edit_sets if edits not in known]
        known.update(zip(doubtful, self.verified_margins(doubtful), strict=True))
        return [known[edits] for edits in edit_sets]

    def flips(self) -> list[EditSet]:
        """Every non-empty set that flipped the dense GNN so far, smallest first.

        An input on the border may be one by rounding; the input itself is never an answer.
        """
        return sorted(
            (edits for edits, margin in self._tried.margins.items() if edits and margin > 0),
            key=lambda edits: (len(edits), edits),
        )

    def misses(self, count: int) -> list[EditSet]:
        """The allowed, non-empty sets nearest to a flip that the dense GNN saw, nearest first."""
        margin_of = self._tried.margins
        return sorted(
            (edits for edits, margin in margin_of.items() if edits and margin > FORBIDDEN),
            key=lambda edits: (-margin_of[edits], len(edits), edits),
        )[:count]

    def _passes(self, edit_sets: Sequence[EditSet]) -> Iterator[Sequence[EditSet]]:
        for start in range(0, len(edit_sets), self._per_pass):
            self.check_stop()
            yield edit_sets[start : start + self._per_pass]


def _without(scores: Tensor, column: int) -> Tensor:
    """[graph, class] scores where one class can never win."""
    others = scores.clone()
    others[:, column] = -torch.inf
    return others
