"""Explains a class by patterns that recur in it, are rare elsewhere and move the GNN towards it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from d4explain.contracts.features.featurisers import featuriser_of
from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.receipts.receipt import Cut
from d4explain.contracts.requests import ClassRequest
from d4explain.contracts.results import ClassResult
from d4explain.gnn.graphs import Graph
from models.classes.config import CLASS_PRESETS, ClassConfig
from models.classes.explain import ClassExplanation, ClassPattern, explain_class
from models.classes.regularisers import DEFAULT_WEIGHTS, Regulariser, regularisers_for
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.metrics.mmd import statistics
from models.realism.node_types import TypeSource
from store.catalogue import gnns
from worker.cases.work_limits import WorkLimits, as_recorded, by_clock
from worker.execution.control import Control
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.explainers import CLASS_SAMPLERS
from worker.handlers.explanation_output import explanation_output
from worker.loading.job_inputs import JobInputs, read_inputs, read_request
from worker.reporting.answer_metrics import class_observations
from worker.reporting.class_documents import class_example
from worker.reporting.receipts import form_warnings, receipt, timings
from worker.reporting.reference_distances import Distance, distance_to_reference

_MMD_SUBGRAPHS = 400  # subgraphs of class graphs that the MMD compares with


def handle_class_explanation(context: HandlerContext) -> HandlerOutput:
    started = time.monotonic()
    request = ClassRequest.model_validate_json(read_request(context.store, context.claim))
    inputs = read_inputs(context.store, context.claim)
    result = class_result(context, request, inputs, started)
    return explanation_output(
        context, result, class_summary(result), observed=class_observations(inputs, result)
    )


def class_summary(result: ClassResult) -> dict[str, Any]:
    return {
        "target_class": result.target_class,
        "examples": len(result.examples),
        "best_contrast": result.examples[0].contrast if result.examples else None,
        "reason": result.reason,
    }


def class_result(
    context: HandlerContext,
    request: ClassRequest,
    inputs: JobInputs,
    started: float,
    recorded_cuts: Sequence[Cut] | None = None,
) -> ClassResult:
    """Samples until the time budget ends, or as far as a recorded sampling did.

    Without a denoiser, all patterns come from the reference graphs.
    """
    library = context.library
    context.phases.enter("load")
    gnn = library.gnn(inputs.gnn)
    denoiser = None if inputs.denoiser is None else library.denoiser(inputs.denoiser)
    graphs = library.reference(inputs.gnn, inputs.dataset).graphs
    predicted = library.reference_predictions(inputs.gnn, inputs.dataset).argmax(dim=1)
    is_in_class = (predicted == request.target_class).tolist()
    config = _class_config(request)
    loaded = time.monotonic()
    context.phases.enter("search")
    limits = WorkLimits(
        by_clock(loaded, request.time_budget)
        if recorded_cuts is None
        else as_recorded(recorded_cuts),
        context.control.should_stop,
    )
    monitor = _SamplingMonitor(context.control)
    explanation = explain_class(
        gnn,
        denoiser,
        graphs,
        is_in_class,
        config,
        seed=request.seed,
        device=library.device,
        should_stop=limits.next_case(1),
        on_step=monitor.on_step,
    )
    context.control.raise_if_stopped()
    explained = time.monotonic()
    context.phases.enter("distances")
    in_class = [graph for graph, own in zip(graphs, is_in_class, strict=True) if own]
    distance = _distance(explanation.patterns, in_class, request.seed)
    featuriser = featuriser_of(inputs.gnn.spec)
    return ClassResult(
        target_class=request.target_class,
        examples=[
            class_example(
                pattern, request.target_class, graphs, featuriser, gnn_names(inputs.gnn.spec)
            )
            for pattern in explanation.patterns
        ],
        reason=explanation.reason,
        tells_small_graphs_apart=explanation.tells_small_graphs_apart,
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
                "class_reference_graphs": len(in_class),
            },
            cuts=limits.cuts,
        ),
        warnings=[
            *form_warnings(gnn),
            *(
                [f"the time budget ended the sampling after {monitor.steps} steps"]
                if limits.cuts
                else []
            ),
            *_evidence_warnings(explanation, gnns.classifies_nodes(inputs.gnn)),
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
        sampler=CLASS_SAMPLERS[request.explainer],
        regularisers=_regularisers(request),
    )


@dataclass
class _SamplingMonitor:
    """Reports and counts the sampler's steps."""

    control: Control
    steps: int = 0

    def on_step(self, step: int, steps: int) -> None:
        self.steps = step
        self.control.progress("sampling", step, steps)


def _evidence_warnings(explanation: ClassExplanation, of_nodes: bool) -> list[str]:
    unit = "nodes" if of_nodes else "graphs"
    reference = explanation.reference
    warnings = []
    if not explanation.tells_small_graphs_apart:
        warnings.append(
            "the GNN gives all small graphs standing alone nearly the same log-odds, so "
            "confidence_alone says nothing"
        )
    if explanation.patterns and reference.ignores_features:
        warnings.append(
            "patterns match by node types and edges; other node features are ignored"
            if reference.types.source is not TypeSource.NONE
            else "patterns match by edges only; node features are measurements and are ignored"
        )
    if explanation.patterns and not reference.independent:
        warnings.append(
            f"the reference set has too few {unit} to measure patterns on others than those they "
            "were found in, so support and effect may be too high"
        )
    return warnings


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


def _distance(patterns: list[ClassPattern], reference: list[Graph], seed: int) -> Distance:
    """MMD to connected subgraphs of class graphs with the sizes of the patterns.

    Whole graphs would not be comparable: their spectra and degrees differ by size alone.
    """
    if not patterns:
        return Distance(None)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(reference), (_MMD_SUBGRAPHS,), generator=generator).tolist()
    neighbours = {index: neighbours_of(reference[index]) for index in set(chosen)}
    subgraphs = [
        connected_subgraph(
            reference[index],
            neighbours[index],
            patterns[place % len(patterns)].graph.node_count,
            generator,
        )
        for place, index in enumerate(chosen)
    ]
    return distance_to_reference(
        [pattern.graph for pattern in patterns], statistics(subgraphs), seed=seed
    )
