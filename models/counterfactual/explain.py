"""Counterfactual explanation of one graph: rank edits, search, prune, verify, select, judge.

The sampler `guided` is ours: a search over edits that the denoiser ranks. Without a denoiser the
same search uses the GNN's slopes. The sampler `paper` is D4Explainer as printed: noise, denoise,
draw, verify. The sampler `explainer` takes an explainer of `models.explainers` and verifies its
curve.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.believable.answers import believable_sets
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.edit_ranking import EditRanker, EffectSource
from models.counterfactual.explained import explain_with
from models.counterfactual.judging import AnswerJudge
from models.counterfactual.modes import SearchMode, search_mode
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.counterfactual.panel import Panel
from models.counterfactual.paper.sampler import sample_counterfactuals
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
from models.counterfactual.selection import Selection, choose, select_counterfactuals
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.errors import UnknownClassError
from models.explainers.factual import FactualExplanation
from models.explainers.interface import Explainer
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
_SEE_MINIMAL = "`minimal` has the smallest flip"


def explain(
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    graph: Graph,
    rules: EditRules,
    config: CounterfactualConfig,
    *,
    seed: int,
    device: torch.device,
    panel: Panel | None = None,
    explainer: Explainer | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> CounterfactualOutcome:
    """Finds edited graphs that the GNN gives another class, with as few edits as possible.

    Believable answers also convince the panel's selection witnesses. Without a panel, or on a graph
    that is too large, all answers are minimal. Without a denoiser the answers have no
    plausibilities. The result depends on the arguments and the seed alone, unless it is stopped.
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

    # Search, prune, verify, select; the other samplers have no search and no pruning.
    factual = None
    judge = AnswerJudge(panel, mode.space, old_class=goal.before, device=device)
    if config.sampler == "paper":
        assert denoiser is not None  # `edit_proposer` refuses the paper's sampler without one
        selection, drawn = sample_counterfactuals(
            denoiser,
            oracle,
            config,
            count_unseen=judge.count_unseen,
            generator=generator,
            device=device,
        )
        search = SearchReport(samples=drawn)
    elif config.sampler == "explainer":
        assert explainer is not None, "the sampler `explainer` needs one"
        try:
            explained = explain_with(
                explainer,
                oracle,
                alternatives=config.alternatives,
                count_unseen=judge.count_unseen,
                generator=generator,
                device=device,
            )
        except StoppedError:
            return _empty_outcome(before, _STOPPED, oracle, started)
        selection, factual, search = explained.selection, explained.factual, SearchReport()
    else:
        shortlist = Shortlist(
            oracle,
            ranker.plausibility,
            alternatives=config.alternatives,
            min_flips=mode.search.min_flips,
        )
        search = search_flips(mode, oracle, ranker, shortlist)
        selection = select_counterfactuals(
            oracle,
            shortlist,
            alternatives=config.alternatives,
            minimal=config.prune,
            stopped=search.stopped,
            count_unseen=judge.count_unseen,
        )
    outcome = _outcome(
        before,
        selection=selection,
        search=search,
        mode=mode,
        proposer=proposer,
        oracle=oracle,
        ranker=ranker,
        judge=judge,
        factual=factual,
        started=started,
    )

    # The same search with the witnesses, and only through graphs that look like the data.
    if config.aim == "minimal" or panel is None or mode.space.dense_form is None:
        return outcome
    return _with_believable(
        outcome,
        mode,
        panel,
        oracle,
        judge,
        plausibility=ranker.plausibility if proposer.has_denoiser else None,
        started=started,
        device=device,
    )


def _why_impossible(space: BaseEditSpace, goal: FlipGoal, rules: EditRules) -> str | None:
    if goal.target == goal.before:
        return f"the GNN already gives this graph the target class, {goal.target}"
    if space.count == 0:
        return "the rules leave no node pair that may be edited"
    if rules.max_edits == 0:
        return "the rules allow no edit: max_edits is 0"
    if space.budget == 0:
        return (
            f"the rules allow no edit: max_ratio {rules.max_ratio:g} of "
            f"{space.graph.edge_count} edges is less than one edit; allow a larger one"
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
    judge: AnswerJudge,
    factual: FactualExplanation | None,
    started: float,
) -> CounterfactualOutcome:
    used_pool = _uses_denoiser_pool(mode, ranker)
    answers = [*selection.chosen]
    if selection.closest_miss is not None:
        answers.append(selection.closest_miss)
    by_denoiser = [
        proposer.has_denoiser and (used_pool or edits in selection.sampled) for edits in answers
    ]
    plausibility = ranker.plausibility if proposer.has_denoiser else None
    described = describe(answers, oracle, plausibility, by_denoiser)
    chosen = len(selection.chosen)
    return CounterfactualOutcome(
        probabilities=before,
        found=judge.judged(described[:chosen], selection.chosen, "minimal"),
        closest_miss=next(iter(described[chosen:]), None),
        reason=None if chosen else _why_nothing(oracle, stopped=search.stopped),
        gnn_evaluations=oracle.evaluations + 1,  # plus the input itself
        gnn_gradients=oracle.gradient_count,
        samples=search.samples,
        depth=search.depth,
        seconds=time.perf_counter() - started,
        candidates=mode.candidates,
        factual=factual,
    )


def _with_believable(
    outcome: CounterfactualOutcome,
    mode: SearchMode,
    panel: Panel,
    oracle: CounterfactualOracle,
    judge: AnswerJudge,
    *,
    plausibility: Tensor | None,  # [pair]
    started: float,
    device: torch.device,
) -> CounterfactualOutcome:
    """Believable answers as the result, with the minimal ones beside them."""
    space, config = mode.space.dense_form, mode.config
    assert space is not None
    believable = believable_sets(
        oracle,
        space,
        panel,
        judge.patterns,
        config.believable,
        probabilities=outcome.probabilities,
        alternatives=config.alternatives,
        device=device,
    )
    convinced = {answer.edits: answer.convinced for answer in believable.sets}
    chosen = choose(space, list(convinced), config.alternatives, judge.count_unseen)
    described = describe(chosen, oracle, plausibility, [False] * len(chosen))
    found = judge.judged(described, chosen, "believable", [convinced[edits] for edits in chosen])
    beside = outcome.found if config.aim == "both" else outcome.found[:1]
    return replace(
        outcome,
        found=found,
        minimal=beside,
        closest_miss=None if found or beside else outcome.closest_miss,
        reason=None if found else _why_not_believable(outcome, panel, stopped=believable.stopped),
        gnn_evaluations=oracle.evaluations + 1,  # plus the input itself
        gnn_gradients=oracle.gradient_count,
        seconds=time.perf_counter() - started,
    )


def _why_not_believable(
    outcome: CounterfactualOutcome, panel: Panel, *, stopped: bool
) -> str | None:
    if not outcome.found:
        return outcome.reason
    if stopped:
        return f"stopped before a believable counterfactual was found; {_SEE_MINIMAL}"
    conditions = ["flip the GNN"]
    if panel.selection:
        conditions.append(f"convince at least half of {len(panel.selection)} witnesses")
    if panel.only_seen and panel.patterns is not None:
        conditions.append("leave only patterns of the reference set")
    *some, last = conditions
    wanted = f"{', '.join(some)} and {last}" if some else last
    return f"no edits were found within the budget that {wanted}; {_SEE_MINIMAL}"


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
