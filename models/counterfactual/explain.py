"""Counterfactual explanation of one graph: rank edits, search, prune, verify, select.

The sampler `guided` is ours: a search over edits that the denoiser ranks, plus denoiser samples.
Without a denoiser the same search uses the GNN's slopes. The sampler `paper` is D4Explainer as
printed: noise, denoise, draw, verify.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.edit_ranking import EditRanker, EffectSource
from models.counterfactual.modes import SearchMode, search_mode
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.counterfactual.paper_sampler import sample_counterfactuals
from models.counterfactual.proposers import EditProposer, edit_proposer
from models.counterfactual.result import (
    CounterfactualOutcome,
    FoundCounterfactual,
    FoundEdit,
    describe,
)
from models.counterfactual.search.flip_search import SearchReport, search_flips
from models.counterfactual.search.shortlist import Shortlist
from models.counterfactual.search.single_edits import pool_size
from models.counterfactual.selection import Selection, select_counterfactuals
from models.diffusion.denoiser import Denoiser
from models.errors import UnknownClassError
from models.graphs.edits import BaseEditSpace, EditRules

__all__ = [
    "CounterfactualConfig",
    "CounterfactualOutcome",
    "EditRules",
    "FoundCounterfactual",
    "FoundEdit",
    "explain",
]

_STOPPED = "stopped before a counterfactual was found"


def explain(
    gnn: Gnn,
    denoiser: Denoiser | None,
    graph: Graph,
    rules: EditRules,
    config: CounterfactualConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
) -> CounterfactualOutcome:
    """Finds edited graphs that the GNN gives another class, with as few edits as possible.

    Without a denoiser the answers have no plausibilities. The result depends on the arguments and
    the seed alone, unless it is stopped.
    """
    if config.target_class is not None and not 0 <= config.target_class < gnn.spec.classes:
        raise UnknownClassError(config.target_class, gnn.spec.classes)
    started = time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    gnn.eval()
    proposer = edit_proposer(denoiser, config, generator)

    # Edit space: the pairs that may be toggled, and the definition of a flip.
    mode = search_mode(graph.cpu(), rules, config, seed)
    before = predict(gnn, [mode.space.graph], device)[0]  # [class]
    goal = FlipGoal(int(before.argmax()), config.target_class)
    oracle = CounterfactualOracle(gnn, mode.space, goal, device, should_stop)
    reason = _why_impossible(mode.space, goal, rules)
    if reason is None and should_stop():
        reason = _STOPPED
    if reason is not None:
        return _empty_outcome(before, reason, oracle, started)

    # Ranking: predicted effect and plausibility of every edit.
    try:
        ranker = mode.rank_edits(proposer, oracle, generator, device)
    except StoppedError:
        return _empty_outcome(before, _STOPPED, oracle, started)

    # Search, prune, verify, select; the paper's sampler has no search and no pruning.
    if config.sampler == "paper":
        selection, drawn = sample_counterfactuals(
            mode, proposer, oracle, ranker, generator=generator, device=device
        )
        search = SearchReport(samples=drawn)
    else:
        shortlist = Shortlist(
            oracle,
            ranker.plausibility,
            alternatives=config.alternatives,
            min_flips=mode.search.min_flips,
        )
        search = search_flips(
            mode, proposer, oracle, ranker, shortlist, generator=generator, device=device
        )
        selection = select_counterfactuals(
            oracle,
            shortlist,
            alternatives=config.alternatives,
            from_samples=search.from_samples,
            minimal=config.prune,
            stopped=search.stopped,
        )
    return _outcome(
        before,
        selection=selection,
        search=search,
        mode=mode,
        proposer=proposer,
        oracle=oracle,
        ranker=ranker,
        started=started,
    )


def _why_impossible(space: BaseEditSpace, goal: FlipGoal, rules: EditRules) -> str | None:
    if goal.target == goal.before:
        return f"the GNN already gives this graph the target class, {goal.target}"
    if space.count == 0:
        return "the rules leave no node pair that may be edited"
    if space.budget == 0:
        return (
            f"the rules allow no edit: max_edits is {rules.max_edits} and max_ratio "
            f"{rules.max_ratio:g} of {space.graph.edge_count} edges is less than one edit"
        )
    return None


def _empty_outcome(
    before: Tensor, reason: str, oracle: CounterfactualOracle, started: float
) -> CounterfactualOutcome:
    return CounterfactualOutcome(
        probabilities=before,
        found=(),
        closest_miss=None,
        reason=reason,
        gnn_evaluations=oracle.evaluations + 1,  # plus the input itself
        gnn_gradients=oracle.gradient_count,
        samples=0,
        depth=0,
        seconds=time.perf_counter() - started,
    )


def _outcome(
    before: Tensor,
    *,
    selection: Selection,
    search: SearchReport,
    mode: SearchMode,
    proposer: EditProposer,
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    started: float,
) -> CounterfactualOutcome:
    used_pool = _uses_denoiser_pool(mode, ranker)
    answers = [*selection.chosen]
    if selection.closest_miss is not None:
        answers.append(selection.closest_miss)
    by_denoiser = [
        proposer.has_denoiser and (used_pool or edits in selection.from_samples)
        for edits in answers
    ]
    plausibility = ranker.plausibility if proposer.has_denoiser else None
    described = describe(answers, oracle, plausibility, by_denoiser)
    chosen = len(selection.chosen)
    return CounterfactualOutcome(
        probabilities=before,
        found=described[:chosen],
        closest_miss=next(iter(described[chosen:]), None),
        reason=None if chosen else _why_nothing(oracle, stopped=search.stopped),
        gnn_evaluations=oracle.evaluations + 1,  # plus the input itself
        gnn_gradients=oracle.gradient_count,
        samples=search.samples,
        depth=search.depth,
        seconds=time.perf_counter() - started,
        candidates=mode.candidates,
    )


def _uses_denoiser_pool(mode: SearchMode, ranker: EditRanker) -> bool:
    """Whether the search tried only the pairs that the denoiser ranked first, if there is one."""
    config = mode.config
    return (
        config.sampler == "guided"
        and config.effect_source is EffectSource.DENOISER
        and pool_size(ranker, mode.search, mode.space.count) is not None
    )


def _why_nothing(oracle: CounterfactualOracle, *, stopped: bool) -> str:
    if stopped:
        return _STOPPED
    target = oracle.goal.target
    wanted = f"class {target}" if target is not None else "another class"
    return f"no graph within {oracle.space.budget} edits was found that the GNN gives {wanted}"
