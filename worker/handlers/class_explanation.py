"""Explains a class by generated graphs that the GNN assigns to it with high confidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from d4explain.contracts.features.featurisers import featuriser_of
from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.requests import ClassRequest
from d4explain.contracts.results import ClassResult
from d4explain.gnn.graphs import Graph
from models.classes.explain import CLASS_PRESETS, ClassConfig, ClassGraph, explain_class
from models.classes.regularisers import DEFAULT_WEIGHTS, Regulariser, regularisers_for
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.metrics.mmd import statistics
from models.metrics.recurrence import SubgraphIndex
from store.catalogue import gnns
from worker.execution.control import Control
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.explainers import SAMPLERS
from worker.handlers.explanation_output import explanation_output
from worker.loading.job_inputs import JobInputs, read_inputs, read_request
from worker.reporting.documents import class_example
from worker.reporting.receipts import form_warnings, receipt, timings
from worker.reporting.reference_distances import Distance, distance_to_reference

_RECURRENCE_GRAPHS = 200  # class graphs that are searched for the explanations
_MAX_PLACEMENTS = 400_000  # node placements tried in that search: about one second
_MMD_SUBGRAPHS = 400  # subgraphs of class graphs that the MMD compares with


def handle_class_explanation(context: HandlerContext) -> HandlerOutput:
    started = time.monotonic()
    request = ClassRequest.model_validate_json(read_request(context.store, context.claim))
    result = class_result(context, request, started)
    summary = {
        "target_class": request.target_class,
        "examples": len(result.examples),
        "best_confidence": max((example.confidence for example in result.examples), default=None),
    }
    return explanation_output(context, result, summary)


def class_result(context: HandlerContext, request: ClassRequest, started: float) -> ClassResult:
    inputs = read_inputs(context.store, context.claim)
    library = context.library
    gnn, denoiser = library.gnn(inputs.gnn), library.denoiser(inputs.required_denoiser)
    reference = _class_reference(context, inputs, request.target_class)
    config = _class_config(request)
    loaded = time.monotonic()
    monitor = _SamplingMonitor(
        context.control, None if request.time_budget is None else loaded + request.time_budget
    )
    examples = explain_class(
        gnn,
        denoiser,
        reference.graphs,
        config,
        seed=request.seed,
        device=library.device,
        should_stop=monitor.should_stop,
        on_step=monitor.on_step,
    )
    context.control.raise_if_stopped()
    explained = time.monotonic()
    distance = _distance(examples, reference.graphs, request.seed)
    recurrences = _recurrences(examples, reference.graphs, request.seed)
    featuriser = featuriser_of(inputs.gnn.spec)
    return ClassResult(
        target_class=request.target_class,
        examples=[
            class_example(
                example,
                request.target_class,
                recurrence,
                featuriser,
                gnn_names(inputs.gnn.spec),
            )
            for example, recurrence in zip(examples, recurrences, strict=True)
        ],
        mmd=distance.mmd,
        timings=timings(started, loaded, explained),
        receipt=receipt(
            context,
            inputs,
            gnn,
            seed=request.seed,
            config=_resolved_config(request, config),
            work={
                "steps": monitor.steps,
                "chains": config.chains,
                "candidates": config.candidates,
                "class_reference_graphs": len(reference.graphs),
            },
        ),
        warnings=[
            *form_warnings(gnn),
            *reference.warnings,
            *monitor.warnings,
            *_other_class_warnings(examples, request.target_class),
            *distance.warnings,
        ],
    )


def _class_config(request: ClassRequest) -> ClassConfig:
    preset = CLASS_PRESETS[request.preset]
    return ClassConfig(
        target_class=request.target_class,
        nodes=request.node_count,
        chains=request.example_count,
        candidates=preset.candidates if request.candidates is None else request.candidates,
        steps=preset.steps if request.steps is None else request.steps,
        sampler=SAMPLERS[request.explainer],
        regularisers=_regularisers(request),
    )


@dataclass(frozen=True)
class _ClassReference:
    graphs: list[Graph]
    warnings: tuple[str, ...] = ()


def _class_reference(context: HandlerContext, inputs: JobInputs, target: int) -> _ClassReference:
    """Reference graphs (or nodes) that the GNN assigns to the class.

    If there are none, those labelled with the class; if there are none either, all of them.
    """
    unit = "node" if gnns.classifies_nodes(inputs.gnn) else "graph"
    reference = context.library.reference(inputs.gnn, inputs.dataset)
    probabilities = context.library.reference_predictions(inputs.gnn, inputs.dataset)
    predicted = probabilities.argmax(dim=1)
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
                f"the GNN assigns no reference {unit} to class {target}; "
                f"node features come from the {unit}s labelled with that class",
            ),
        )
    return _ClassReference(
        reference.graphs,
        (
            f"the GNN assigns no reference {unit} to class {target} and no {unit} is labelled "
            f"with it; node features come from all reference {unit}s",
        ),
    )


@dataclass
class _SamplingMonitor:
    """Reports the sampler's steps and stops it on request or when the time budget is used up."""

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


def _other_class_warnings(examples: list[ClassGraph], target: int) -> list[str]:
    """Low confidence alone does not show that another class is more probable."""
    missed = sum(int(example.probabilities.argmax()) != target for example in examples)
    if not missed:
        return []
    return [f"the GNN assigns {missed} of {len(examples)} examples to another class"]


def _regularisers(request: ClassRequest) -> tuple[Regulariser, ...] | None:
    """None leaves the choice to the sampler; the paper's sampler uses only requested ones."""
    if not request.regularisers:
        return None
    if request.explainer == "d4-paper":
        return regularisers_for(dict.fromkeys(DEFAULT_WEIGHTS, 0.0) | request.regularisers)
    return regularisers_for(request.regularisers)


def _resolved_config(request: ClassRequest, config: ClassConfig) -> dict[str, object]:
    return request.model_dump(mode="json", exclude={"kind", "seed"}) | {
        "candidates": config.candidates,
        "steps": config.steps,
        "regularisers": {
            type(term).__name__.lower(): term.weight for term in config.resolved_regularisers
        },
        "mmd_reference": "connected subgraphs of the class's reference graphs, of the same sizes",
    }


def _recurrences(
    examples: list[ClassGraph], reference: list[Graph], seed: int
) -> list[float | None]:
    """For each example, the share of the class's graphs that contain it.

    Many graphs are sampled. None if counting took too many placements.
    """
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(reference), generator=generator)[:_RECURRENCE_GRAPHS].tolist()
    index = SubgraphIndex([reference[position] for position in chosen])
    counts = [
        index.containing(example.graph, _MAX_PLACEMENTS // len(examples)) for example in examples
    ]
    return [None if count is None else count / index.count for count in counts]


def _distance(examples: list[ClassGraph], reference: list[Graph], seed: int) -> Distance:
    """MMD to connected subgraphs of class graphs with the sizes of the examples, by share.

    Whole graphs would not be comparable: their spectra and degrees differ by size alone.
    """
    if not examples:
        return Distance(None)
    generator = torch.Generator().manual_seed(seed)
    shares = _shares(examples)
    sized_as = torch.multinomial(
        shares, _MMD_SUBGRAPHS, replacement=True, generator=generator
    ).tolist()
    chosen = torch.randint(len(reference), (_MMD_SUBGRAPHS,), generator=generator).tolist()
    neighbours = {index: neighbours_of(reference[index]) for index in set(chosen)}
    subgraphs = [
        connected_subgraph(
            reference[index],
            neighbours[index],
            examples[example].graph.node_count,
            generator,
        )
        for example, index in zip(sized_as, chosen, strict=True)
    ]
    return distance_to_reference(
        [example.graph for example in examples],
        statistics(subgraphs),
        seed=seed,
        shares=shares,
    )


def _shares(examples: list[ClassGraph]) -> Tensor:
    """[example]; equal shares if the sampler reports none."""
    equal = 1 / len(examples)
    shares = [equal if example.share is None else example.share for example in examples]
    return torch.tensor(shares, dtype=torch.float64)
