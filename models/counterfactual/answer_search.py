"""How counterfactuals of one graph are found, and which of them are the answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from models.counterfactual.beam_search import Guide, Search, pool_size
from models.counterfactual.config import CounterfactualConfig, search_of_large_graphs
from models.counterfactual.denoiser_proposals import draw, pruned_flips, scattered
from models.counterfactual.edit_ranking import EditRanker, EffectSource
from models.counterfactual.large.candidate_space import CandidateSpace
from models.counterfactual.large.patches import PatchEditRanker
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle, StoppedError
from models.counterfactual.pruning import prune
from models.counterfactual.result import FoundCounterfactual, FoundEdit
from models.counterfactual.selection import choose, codes_of, shortlist
from models.diffusion.denoiser import Denoiser
from models.graphs.edits import LARGE_SET, EditSet

STOPPED = "stopped before a counterfactual was found"
_KEPT_FLIPS = 64  # flips that are verified and chosen from; fewer for large graphs
_KEPT_CELLS = 2**22
_CHECKED_MISSES = 8
_SAMPLED_DEPTH = 2  # that the search has finished when the denoiser's samples are asked for


class Sampling:
    """One sampler at work on one graph; what it found is kept also when it is stopped."""

    def __init__(
        self,
        denoiser: Denoiser,
        judge: CounterfactualOracle,
        config: CounterfactualConfig,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.chosen: list[EditSet] = []  # best first, each verified
        self.nearest: list[EditSet] = []  # the closest miss, if nothing was found
        self.samples = 0
        self.depth = 0
        self._denoiser = denoiser
        self._judge = judge
        self._space = judge.space
        space = judge.space
        is_restricted = isinstance(space, CandidateSpace)
        self._config = config
        self._search_config = search_of_large_graphs(config) if is_restricted else config.search
        self._generator = generator
        self._device = device
        self._stopped = False
        self._by_denoiser: set[EditSet] = set()
        self._code_of: dict[EditSet, int] = {}
        self._scout: EditRanker | PatchEditRanker
        if isinstance(space, CandidateSpace):
            self._scout = PatchEditRanker(
                denoiser, judge, space, config.candidates, device=device, generator=generator
            )
        else:
            self._scout = EditRanker(
                denoiser, judge, device, foresight=config.foresight, generator=generator
            )
        self._plausibility = self._scout.plausibility
        self._chosen_from_pool = (
            config.sampler == "guided"
            and config.foresight is EffectSource.DENOISER
            and pool_size(self._scout, self._search_config, self._space.count) is not None
        )

    def sample(self) -> None:
        tried: list[EditSet] = []
        try:
            if self._config.sampler == "paper":
                tried = self._draw()
            else:
                self._search()
        except StoppedError:
            self._stopped = True
        if self._config.sampler == "paper":
            self._choose_as_drawn(tried)
        else:
            self._choose_pruned()

    def why_nothing(self) -> str:
        if self._stopped:
            return STOPPED
        goal = self._judge.goal
        wanted = f"class {goal.target}" if goal.target is not None else "another class"
        return f"no graph within {self._space.budget} edits was found that the GNN gives {wanted}"

    def described(self, edit_sets: Sequence[EditSet]) -> list[FoundCounterfactual]:
        if not edit_sets:
            return []
        probabilities = self._judge.verify(edit_sets)
        components = self._space.component_counts(edit_sets)
        graphs = self._space.apply_all(edit_sets)
        return [
            self._one(edits, graph, probability, parts == 1)
            for edits, graph, probability, parts in zip(
                edit_sets, graphs, probabilities, components, strict=True
            )
        ]

    def _one(
        self, edits: EditSet, graph: Graph, probabilities: Tensor, connected: bool
    ) -> FoundCounterfactual:
        space = self._space
        by_denoiser = self._chosen_from_pool or edits in self._by_denoiser
        found = tuple(
            FoundEdit(
                source=int(space.sources[pair]),
                target=int(space.targets[pair]),
                added=not space.present[pair],
                plausibility=float(self._plausibility[pair]),
                by_denoiser=by_denoiser,
                attributes=space.attributes_of(pair),
            )
            for pair in edits
        )
        return FoundCounterfactual(
            graph=graph,
            edits=found,
            probabilities=probabilities,
            likelihood=sum(edit.plausibility for edit in found) / len(found),
            connected=connected,
            by_denoiser=by_denoiser,
        )

    def _draw(self) -> list[EditSet]:
        if isinstance(self._scout, PatchEditRanker):  # a large graph is not drawn as a whole
            return self._scout.bundles(self._space.budget)
        drawn = draw(
            self._denoiser,
            self._space,
            self._config.resolved_proposals,
            self._generator,
            self._device,
        )
        if self._config.foresight is not EffectSource.DENOISER:
            drawn = scattered(drawn, self._space.count, self._generator)
        self.samples = len(drawn)
        return [edits for edits in drawn if edits]

    def _search(self) -> None:
        """Fills the judge with flips: single edits, the beam, denoiser samples where both fail."""
        search = Search(self._judge, self._scout, self._search_config, self._has_choice)
        guide = search.begin()
        self.depth = 1
        deepest = self._space.budget
        if isinstance(self._space, CandidateSpace):
            deepest = min(deepest, self._search_config.wide_depth)
        while not self._enough(search.depth) and search.depth < deepest:
            if search.depth == _SAMPLED_DEPTH and not self._judge.flips():
                self._sample_flips(guide)
            search.deepen()
            self.depth = search.depth
        search.exchange()

    def _sample_flips(self, guide: Guide) -> None:
        """What two edits do not reach a sample often does; pruned, it bounds the search."""
        proposed = pruned_flips(
            self._draw(),
            self._judge,
            guide,
            plausibility_weight=self._search_config.plausibility_weight,
            wanted=self._config.alternatives,
            minimal=self._config.prune,
        )
        self._by_denoiser.update(proposed)

    def _enough(self, depth: int) -> bool:
        """Whether a depth with flips is passed by one, or has all the alternatives asked for."""
        flips = self._judge.flips()
        if not flips or len(flips[0]) > depth:
            return False
        return len(flips[0]) < depth or self._has(self._config.alternatives, depth)

    def _has_choice(self, depth: int) -> bool:
        """Whether the best answer was chosen out of several; beyond its depth, alternatives do."""
        alternatives = self._config.alternatives
        if (flips := self._judge.flips()) and len(flips[0]) < depth:
            return self._has(alternatives, depth)
        return self._has(max(alternatives, self._search_config.choice), depth)

    def _has(self, wanted: int, depth: int) -> bool:
        """Whether so many really different flips of at most so many edits are known."""
        flips = [edits for edits in self._shortlist() if len(edits) <= depth]
        return len(flips) >= wanted and len(set(self._codes(flips))) >= wanted

    def _choose_as_drawn(self, drawn: Sequence[EditSet]) -> None:
        """The paper's way: what was drawn is verified as it is, and ranked by edits."""
        self._by_denoiser.update(drawn)
        distinct = list(dict.fromkeys(drawn))
        margins = self._judge.verified_margins(distinct)
        flips = [edits for edits, margin in zip(distinct, margins, strict=True) if margin > 0]
        self.chosen = choose(self._space, flips, self._config.alternatives)
        if not self.chosen:
            self.nearest = self._nearest(distinct)

    def _choose_pruned(self) -> None:
        """The best of the flips known, as the sparse GNN sees them.

        Dense and sparse form differ by rounding only, so that the choice is made first and nearly
        always stands; what does not is struck out, and the next best are asked for.
        """
        # the nearest miss too may be a flip by rounding
        left = self._shortlist() or self._judge.misses(_CHECKED_MISSES)
        code_of = dict(zip(left, self._codes(left), strict=True))
        kept: list[EditSet] = []
        while left and len(kept) < self._config.alternatives:
            asked = choose(self._space, left, self._config.alternatives)
            margins = self._judge.verified_margins(asked)
            flips = [edits for edits, margin in zip(asked, margins, strict=True) if margin > 0]
            minimal = self._pruned(flips) if self._config.prune else flips
            for edits, pruned in zip(flips, minimal, strict=True):
                if edits in self._by_denoiser:
                    self._by_denoiser.add(pruned)
            kept = choose(self._space, [*kept, *minimal], self._config.alternatives)
            # what is alike up to a symmetry has the same verdict
            struck = {code_of[edits] for edits in asked}
            left = [edits for edits in left if code_of[edits] not in struck]
        self.chosen = kept
        if not self.chosen:
            self.nearest = self._nearest(self._judge.misses(_CHECKED_MISSES))

    def _codes(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """Equal for sets that are alike up to a symmetry of the graph."""
        new = [edits for edits in edit_sets if edits not in self._code_of]
        self._code_of.update(zip(new, codes_of(self._space, new), strict=True))
        return [self._code_of[edits] for edits in edit_sets]

    def _pruned(self, flips: Sequence[EditSet]) -> list[EditSet]:
        """Each without the edits it does not need, if the sparse GNN agrees.

        Once stopped, large sets stay as they are: pruning one takes longer than the rest.
        """
        asked = [edits for edits in flips if len(edits) <= LARGE_SET or not self._stopped]
        pruned = list(asked)
        prune(pruned, self._judge.sure_margins)
        held = self._judge.verified_margins(pruned)
        smaller = {
            edits: less
            for edits, less, margin in zip(asked, pruned, held, strict=True)
            if margin > 0
        }
        return [smaller.get(edits, edits) for edits in flips]

    def _shortlist(self) -> list[EditSet]:
        affordable = _KEPT_CELLS // self._space.graph.node_count**2
        wanted = max(4 * self._config.alternatives, self._search_config.choice)
        count = max(wanted, min(_KEPT_FLIPS, affordable))
        # once stopped, only what is returned is worth the time
        count = self._config.alternatives if self._stopped else count
        return shortlist(self._judge, self._plausibility, count)

    def _nearest(self, misses: Sequence[EditSet]) -> list[EditSet]:
        """The set nearest to a flip by the sparse GNN, or none if the rules forbid all."""
        margins = self._judge.verified_margins(misses)
        allowed = [
            (margin, edits)
            for margin, edits in zip(margins, misses, strict=True)
            if margin > FORBIDDEN
        ]
        return [max(allowed, key=lambda miss: miss[0])[1]] if allowed else []
