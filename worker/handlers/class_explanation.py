"""Explains a class: graphs that the GNN gives it with high confidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from sqlalchemy.orm import Session
from torch import Tensor

from d4explain.contracts.featurisers import featuriser_of
from d4explain.contracts.requests import ClassRequest
from d4explain.contracts.results import ClassResult, Timings
from d4explain.gnn.graphs import Graph
from models.classes.explain import CLASS_PRESETS, ClassConfig, ClassGraph, explain_class
from models.classes.regularisers import DEFAULT_WEIGHTS, Regulariser, regularisers_for
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.metrics.mmd import statistics
from models.metrics.recurrence import SubgraphIndex
from store.catalogue import explanations, gnns
from worker.execution.control import Control
from worker.execution.handler_api import Outcome, Work
from worker.handlers.explainers import SAMPLERS
from worker.loading.job_inputs import JobInputs, inputs_of, request_bytes
from worker.reporting.documents import class_example, figure
from worker.reporting.receipts import form_warnings, receipt
from worker.reporting.reference_distances import Distance, distance_to_reference

_HOSTS = 200  # class graphs in which explanations are looked for
_PLACEMENTS = 400_000  # of nodes, while looking: a second of work at most
_PARTS = 400  # subgraphs of class graphs that explanations are compared with


def explain_class_job(work: Work) -> Outcome:
    started = time.monotonic()
    request = ClassRequest.model_validate_json(request_bytes(work))
    subjects = inputs_of(work)
    gnn, denoiser = work.library.gnn(subjects.gnn), work.library.denoiser(subjects.denoiser)
    reference = _class_reference(work, subjects, request.target_class)
    effort = CLASS_PRESETS[request.preset]
    config = ClassConfig(
        target_class=request.target_class,
        nodes=request.node_count,
        chains=request.example_count,
        candidates=effort.candidates if request.candidates is None else request.candidates,
        steps=effort.steps if request.steps is None else request.steps,
        sampler=SAMPLERS[request.explainer],
        regularisers=_regularisers(request),
    )
    loaded = time.monotonic()
    watch = _Watch(
        work.control, None if request.time_budget is None else loaded + request.time_budget
    )
    found = explain_class(
        gnn,
        denoiser,
        reference.graphs,
        config,
        seed=request.seed,
        device=work.library.device,
        should_stop=watch.should_stop,
        on_step=watch.on_step,
    )
    work.control.raise_if_stopped()
    explained = time.monotonic()
    distance = _distance(found, reference.graphs, request.seed)
    result = ClassResult(
        target_class=request.target_class,
        examples=[
            class_example(
                example, request.target_class, recurrence, featuriser_of(subjects.gnn.spec)
            )
            for example, recurrence in zip(
                found, _recurrences(found, reference.graphs, request.seed), strict=True
            )
        ],
        mmd=distance.mmd,
        timings=Timings(
            load_seconds=figure(loaded - started),
            explain_seconds=figure(explained - loaded),
            mmd_seconds=figure(time.monotonic() - explained),
        ),
        receipt=receipt(
            work,
            subjects,
            gnn,
            seed=request.seed,
            config=_resolved(request, config),
            done={
                "steps": watch.steps,
                "chains": config.chains,
                "candidates": config.candidates,
                "class_reference_graphs": len(reference.graphs),
            },
        ),
        warnings=[
            *form_warnings(gnn),
            *reference.warnings,
            *watch.warnings,
            *_missed(found, request.target_class),
            *distance.warnings,
        ],
    )
    digest = work.store.artifacts.put(result.model_dump_json().encode())

    def record(session: Session) -> None:
        explanations.finish(
            session,
            work.claim,
            result_digest=digest,
            summary={
                "target_class": request.target_class,
                "examples": len(result.examples),
                "best_confidence": max(
                    (example.confidence for example in result.examples), default=None
                ),
            },
        )

    return Outcome(
        result={"kind": "explanation", "explanation": work.claim.subject_id}, record=record
    )


@dataclass(frozen=True)
class _ClassReference:
    graphs: list[Graph]
    warnings: tuple[str, ...] = ()


def _class_reference(work: Work, subjects: JobInputs, target: int) -> _ClassReference:
    """The reference graphs (or nodes) of a class as the GNN sees it, or the next best."""
    what = "node" if gnns.classifies_nodes(subjects.gnn) else "graph"
    reference = work.library.reference(subjects.gnn, subjects.dataset)
    predicted = work.library.reference_predictions(subjects.gnn, subjects.dataset).argmax(dim=1)
    by_gnn = [reference.graphs[i] for i in (predicted == target).nonzero()[:, 0].tolist()]
    if by_gnn:
        return _ClassReference(by_gnn)
    by_label = [
        graph
        for graph, label in zip(reference.graphs, reference.labels, strict=True)
        if label == target
    ]
    if by_label:
        return _ClassReference(
            by_label,
            (
                f"the GNN gives no reference {what} class {target}; "
                "node features come from the graphs that are labelled so",
            ),
        )
    return _ClassReference(
        reference.graphs,
        (
            f"the GNN gives no reference {what} class {target} and none is labelled so; "
            f"node features come from all reference {what}s",
        ),
    )


@dataclass
class _Watch:
    """Follows the sampler's steps and ends it when told to, or when its time is over."""

    control: Control
    deadline: float | None
    steps: int = 0
    warnings: list[str] = field(default_factory=list)

    def should_stop(self) -> bool:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            if not self.warnings:
                self.warnings.append(f"the time budget ended the sampling after {self.steps} steps")
            return True
        return self.control.should_stop()

    def on_step(self, step: int, steps: int) -> None:
        self.steps = step
        self.control.progress("sampling", step, steps)


def _missed(found: list[ClassGraph], target: int) -> list[str]:
    """Low confidence alone does not say that another class has more."""
    missed = sum(int(example.probabilities.argmax()) != target for example in found)
    return [f"the GNN gives {missed} of {len(found)} examples another class"] if missed else []


def _regularisers(request: ClassRequest) -> tuple[Regulariser, ...] | None:
    """None leaves them to the sampler; the paper's has none but those that are asked for."""
    if not request.regularisers:
        return None
    if request.explainer == "d4-paper":
        return regularisers_for(dict.fromkeys(DEFAULT_WEIGHTS, 0.0) | request.regularisers)
    return regularisers_for(request.regularisers)


def _resolved(request: ClassRequest, config: ClassConfig) -> dict[str, object]:
    return request.model_dump(mode="json", exclude={"kind", "seed"}) | {
        "candidates": config.candidates,
        "steps": config.steps,
        "regularisers": {
            type(term).__name__.lower(): term.weight for term in config.resolved_regularisers
        },
        "mmd_reference": "connected subgraphs of the class's reference graphs, of the same sizes",
    }


def _recurrences(found: list[ClassGraph], reference: list[Graph], seed: int) -> list[float | None]:
    """The share of the class's graphs, of a random choice if there are many, that contain each."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(reference), generator=generator)[:_HOSTS].tolist()
    hosts = SubgraphIndex([reference[index] for index in chosen])
    counts = [hosts.containing(example.graph, _PLACEMENTS // len(found)) for example in found]
    return [None if count is None else count / hosts.count for count in counts]


def _distance(found: list[ClassGraph], reference: list[Graph], seed: int) -> Distance:
    """MMD to connected parts of class graphs, as large as explanations are, by their shares.

    Whole graphs would be no measure: their spectra and degrees differ by size alone.
    """
    if not found:
        return Distance(None)
    generator = torch.Generator().manual_seed(seed)
    shares = _shares(found)
    sized_as = torch.multinomial(shares, _PARTS, replacement=True, generator=generator).tolist()
    chosen = torch.randint(len(reference), (_PARTS,), generator=generator).tolist()
    neighbours = {index: neighbours_of(reference[index]) for index in set(chosen)}
    parts = [
        connected_subgraph(
            reference[index],
            neighbours[index],
            found[size].graph.node_count,
            generator,
        )
        for size, index in zip(sized_as, chosen, strict=True)
    ]
    return distance_to_reference(
        [example.graph for example in found],
        statistics(parts),
        seed=seed,
        shares=shares,
    )


def _shares(found: list[ClassGraph]) -> Tensor:
    """[example]; alike where the sampler says none."""
    said = [1 / len(found) if example.share is None else example.share for example in found]
    return torch.tensor(said, dtype=torch.float64)
