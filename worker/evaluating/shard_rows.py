"""Explains the instances of one shard with every explainer: one row each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.evaluations.requests import WITH_DENOISER, EvaluationRequest
from d4explain.contracts.evaluations.rows import EvaluationRow, ShardRows
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest, Explainer
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.believable.search import BELIEVABLE_PRESETS
from models.counterfactual.config import Sampler
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome
from models.counterfactual.result import FoundCounterfactual
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.typicality import NoTypicality, typicalities
from models.evaluation.noise_robustness import kept_share
from models.evaluation.transfer import Votes, graph_votes
from models.explainers.interface import Explainer as MadeExplainer
from models.metrics.scores import fidelity, jaccard_distance, mean_jaccard_distance
from models.witnesses.transfer import Transfer
from store.artifacts.graph_sets import canonical_graph_hash
from worker.cases.graph_cases import Case, cases_of, mix_seed
from worker.loading.answer_panel import AnswerPanel, answer_panel
from worker.loading.job_inputs import JobInputs
from worker.loading.library import Library
from worker.reporting.documents import NonFiniteAnswerError, rounded

Explain = Callable[[Case], CounterfactualOutcome]
# Of a request: the sampler, and an explainer of `models.explainers`, trained if it learns.
Prepare = Callable[[CounterfactualRequest], tuple[Sampler, MadeExplainer | None]]


@dataclass(frozen=True)
class Shard:
    """The instances of a shard and what explains and judges them."""

    request: EvaluationRequest
    first: int  # instance
    documents: Sequence[CanonicalGraph]
    inputs: JobInputs
    gnn: Gnn
    denoiser: EdgeDenoiser | None
    judging: AnswerPanel
    library: Library
    prepare: Prepare

    @property
    def device(self) -> torch.device:
        return self.library.device


def open_shard(
    library: Library,
    request: EvaluationRequest,
    first: int,
    documents: Sequence[CanonicalGraph],
    inputs: JobInputs,
    *,
    prepare: Prepare,
) -> Shard:
    judging = answer_panel(library, _as_explanation(request, documents, "search"), inputs)
    return Shard(
        request=request,
        first=first,
        documents=documents,
        inputs=inputs,
        gnn=library.gnn(inputs.gnn),
        denoiser=None if inputs.denoiser is None else library.denoiser(inputs.denoiser),
        judging=judging,
        library=library,
        prepare=prepare,
    )


def shard_rows(
    shard: Shard,
    *,
    on_progress: Callable[[int], None],
    should_stop: Callable[[], bool],
) -> ShardRows:
    """Rows by instance, then by explainer; `on_progress` gets the number of explained instances.

    A row depends on its graph, the networks, the settings and the seed. The rows of one shard are
    computed together, so a shard is repeated as a whole.
    """
    cases = _cases(shard)
    outcomes: dict[str, list[_Timed]] = {name: [] for name in shard.request.explainers}
    explain = {name: _explain_with(shard, name, should_stop) for name in shard.request.explainers}
    for position, case in enumerate(cases):
        for name in shard.request.explainers:
            outcomes[name].append(_timed(explain[name], case, shard))
            if should_stop():
                return ShardRows(rows=[])
        on_progress(position + 1)
    by_explainer = [_rows(shard, name, cases, outcomes[name]) for name in outcomes]
    return ShardRows(
        rows=[row for rows in zip(*by_explainer, strict=True) for row in rows],
        judges=_used(shard.judging.judges),
        unjudged_reason=shard.judging.unjudged_reason,
        warnings=list(shard.judging.warnings),
    )


@dataclass(frozen=True)
class _Timed:
    outcome: CounterfactualOutcome
    cpu_seconds: float
    stability: float | None


def _used(judges: Sequence[Judge]) -> list[Judge]:
    return [judge for judge in judges if judge.used]


def _as_explanation(
    request: EvaluationRequest, documents: Sequence[CanonicalGraph], explainer: Explainer
) -> CounterfactualRequest:
    """The request that explains these graphs on their own."""
    return CounterfactualRequest(
        graphs=list(documents),
        alternatives=request.alternatives,
        aim=request.aim,
        judges=request.judges,
        no_witnesses=request.no_witnesses,
        constraints=request.constraints,
        explainer=explainer,
        preset=request.preset,
        seed=request.seed,
    )


def _cases(shard: Shard) -> list[Case]:
    usual = shard.library.usual_attributes(shard.inputs.gnn, shard.inputs.dataset)
    asked = _as_explanation(shard.request, shard.documents, "search")
    return list(cases_of(asked, shard.gnn.spec, usual, max_nodes=shard.library.exact_nodes))


def _explain_with(shard: Shard, name: Explainer, should_stop: Callable[[], bool]) -> Explain:
    """Explains one case. Searches stay bounded by their settings; there is no time budget."""
    sampler, explainer = shard.prepare(_as_explanation(shard.request, shard.documents, name))
    config = CounterfactualConfig(
        alternatives=shard.request.alternatives,
        aim=shard.judging.aim if sampler == "guided" else "minimal",
        sampler=sampler,
        search=PRESETS[shard.request.preset],
        believable=BELIEVABLE_PRESETS[shard.request.preset],
    )
    explain = partial(
        Case.explain,
        gnn=shard.gnn,
        denoiser=shard.denoiser if name in WITH_DENOISER else None,
        config=config,
        explainer=explainer,
        device=shard.device,
        # Judges are asked about the first answers of the whole shard at once.
        panel=replace(shard.judging.panel, judges=()),
        should_stop=should_stop,
    )

    def explained(case: Case) -> CounterfactualOutcome:
        outcome = explain(case)
        if case.molecule is not None and case.rules.valences is not None:
            outcome = case.molecule.only_valid(outcome)
        return outcome

    return explained


def _timed(explain: Explain, case: Case, shard: Shard) -> _Timed:
    started = time.process_time()
    outcome = explain(case)
    cpu_seconds = time.process_time() - started
    if not bool(torch.isfinite(outcome.probabilities).all()):
        raise NonFiniteAnswerError
    stability = None
    if "stability" in shard.request.metrics:
        stability = _stability(explain, case, outcome, shard.request.stability_seeds)
    return _Timed(outcome, cpu_seconds, stability)


def _stability(explain: Explain, case: Case, outcome: CounterfactualOutcome, seeds: int) -> float:
    """Mean Jaccard similarity of the first answer's edits with those of further seeds.

    No answer twice is the same answer; no answer and an answer share nothing.
    """
    edits = _edit_set(outcome)
    similarities = []
    for number in range(seeds):
        again = replace(case, seed=mix_seed(case.seed, f"stability {number}"))
        other = _edit_set(explain(again))
        same = 1.0 if edits == other else 0.0 if None in (edits, other) else None
        if same is None:
            assert edits is not None
            assert other is not None
            same = 1 - jaccard_distance(edits, other)
        similarities.append(same)
    return sum(similarities) / seeds


def _edit_set(outcome: CounterfactualOutcome) -> frozenset[tuple[int, int]] | None:
    if not outcome.found:
        return None
    return frozenset((edit.source, edit.target) for edit in outcome.found[0].edits)


def _rows(
    shard: Shard, name: str, cases: Sequence[Case], timed: Sequence[_Timed]
) -> list[EvaluationRow]:
    first = [each.outcome.found[0] if each.outcome.found else None for each in timed]
    originals = [case.graph for case in cases]
    edited = [None if found is None else found.graph for found in first]
    votes = _votes(shard, originals, edited)
    typical = _typicalities(shard, originals, edited)
    rows = []
    for place, (case, each, found) in enumerate(zip(cases, timed, first, strict=True)):
        before = each.outcome.probabilities
        old_class = int(before.argmax())
        robust = _robustness(shard, case, old_class, found)
        edit_sets = [
            {(edit.source, edit.target) for edit in answer.edits} for answer in each.outcome.found
        ]
        after = None if found is None else found.probabilities
        new_class = None if after is None else int(after.argmax())
        edits = None if found is None else len(found.edits)
        rows.append(
            EvaluationRow(
                instance=shard.first + place,
                graph=shard.request.positions[shard.first + place],
                graph_sha256=canonical_graph_hash(case.document),
                explainer=name,
                node_count=case.graph.node_count,
                edge_count=case.graph.edge_count,
                label=case.document.label,
                predicted_class=old_class,
                probability=rounded(float(before[old_class])),
                found=found is not None,
                reason=each.outcome.reason if found is None else None,
                new_class=new_class,
                new_probability=_rounded(
                    None if after is None or new_class is None else float(after[new_class])
                ),
                added=_pairs(found, added=True),
                removed=_pairs(found, added=False),
                edits=edits,
                modification_ratio=_rounded(
                    None if edits is None else edits / max(case.graph.edge_count, 1)
                ),
                fidelity=_rounded(None if after is None else fidelity(before, after)),
                connected=None if found is None else found.connected,
                verdict=_verdict(votes, place, asked=len(shard.judging.panel.judges)),
                judges_agree=[] if votes is None else votes.agrees[:, place].tolist(),
                judges_share=[] if votes is None else votes.shared[:, place].tolist(),
                typicality_before=typical[0][place],
                typicality=typical[1][place],
                answer_count=len(each.outcome.found),
                diversity=_rounded(mean_jaccard_distance(edit_sets)),
                robustness_before=_rounded(robust[0]),
                robustness=_rounded(robust[1]),
                stability=_rounded(each.stability),
                gnn_evaluations=each.outcome.gnn_evaluations,
                gnn_gradients=each.outcome.gnn_gradients,
                cpu_seconds=rounded(each.cpu_seconds),
                seconds=rounded(each.outcome.seconds),
            )
        )
    return rows


def _votes(
    shard: Shard, originals: Sequence[Graph], edited: Sequence[Graph | None]
) -> Votes | None:
    judges = shard.judging.panel.judges
    if "transfer" not in shard.request.metrics or not judges:
        return None
    return graph_votes(shard.gnn, judges, originals, edited, shard.device)


def _verdict(votes: Votes | None, place: int, *, asked: int) -> str | None:
    """As of an explanation: by most of the judges that agree on the original."""
    if votes is None or not bool(votes.flipped[place]):
        return None
    agreeing, shared = int(votes.agrees[:, place].sum()), int(votes.shared[:, place].sum())
    return Transfer(shared=shared, agreeing=agreeing, asked=asked).verdict.value


def _typicalities(
    shard: Shard, originals: Sequence[Graph], edited: Sequence[Graph | None]
) -> tuple[list[float | None], list[float | None]]:
    """Of the originals and of the answers; None without a figure."""
    unknown: list[float | None] = [None] * len(originals)
    if "typicality" not in shard.request.metrics or shard.denoiser is None:
        return unknown, unknown
    answers = [graph for graph in edited if graph is not None]
    figures = [
        None if isinstance(figure, NoTypicality) else rounded(figure.value)
        for figure in typicalities(shard.denoiser, [*originals, *answers], shard.device)
    ]
    of_answers = iter(figures[len(originals) :])
    return (
        figures[: len(originals)],
        [None if graph is None else next(of_answers) for graph in edited],
    )


def _robustness(
    shard: Shard, case: Case, old_class: int, found: FoundCounterfactual | None
) -> tuple[float | None, float | None]:
    """Shares of noisy copies of the original and of the answer that keep their class."""
    if "robustness" not in shard.request.metrics or case.graph.edge_attributes is not None:
        return None, None
    share = partial(kept_share, shard.gnn, seed=case.seed, device=shard.device)
    before = share(case.graph, old_class)
    if found is None:
        return before, None
    return before, share(found.graph, int(found.probabilities.argmax()))


def _pairs(found: FoundCounterfactual | None, *, added: bool) -> list[tuple[int, int]]:
    if found is None:
        return []
    return sorted((edit.source, edit.target) for edit in found.edits if edit.added is added)


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)
