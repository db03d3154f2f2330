"""Trains the witnesses of a GNN; a later attempt starts over, because it takes minutes at most."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean

import torch
from safetensors.torch import save as save_tensors
from sqlalchemy.orm import Session
from torch import Tensor

from d4explain.gnn.errors import RefusedError
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.witnesses.witness_set import (
    MIN_GRAPHS,
    PLANS,
    Role,
    WitnessPlan,
    WitnessProgress,
    WitnessSet,
    WitnessTrainingStoppedError,
    train_witnesses,
)
from store.catalogue import witness_sets
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.loading.graph_conversion import LabelledGraphs
from worker.loading.job_inputs import read_inputs
from worker.reporting.documents import rounded

_PHASE = "training witnesses"


def handle_witnesses(
    context: HandlerContext, plans: Sequence[WitnessPlan] = PLANS
) -> HandlerOutput:
    started = time.monotonic()
    context.phases.enter("load")
    inputs = read_inputs(context.store, context.claim)
    gnn = context.library.gnn(inputs.gnn)
    reference = context.library.reference(inputs.gnn, inputs.dataset)
    _check_feasible(reference.graphs, context.store.settings.max_training_seconds)
    context.phases.enter("training")
    trained = _train(context, gnn, reference, plans)
    context.control.progress(_PHASE, len(plans), len(plans))
    digest = context.store.artifacts.of(context.claim.tenant).put(save_tensors(trained.tensors()))
    metrics: dict[str, float] = {
        "seconds": rounded(time.monotonic() - started),
        "graphs": len(reference.graphs),
        "judges": len(trained.usable(Role.JUDGE)),
        "agreement": rounded(fmean(witness.agreement for witness in trained.witnesses)),
    }

    def record(session: Session) -> None:
        witness_sets.finish(
            session,
            context.claim,
            weights_digest=digest,
            description={"witnesses": trained.description()},
            metrics=metrics,
        )

    return HandlerOutput(
        result={"kind": "witnesses", "witness_set": context.claim.witness_set_id}, record=record
    )


class WitnessesRefusedError(RefusedError):
    """The witnesses cannot be trained; explanations go on without them."""


def _check_feasible(graphs: Sequence[Graph], max_seconds: float) -> None:
    if len(graphs) < MIN_GRAPHS:
        raise WitnessesRefusedError(
            f"witnesses need {MIN_GRAPHS} reference graphs or nodes; there are {len(graphs)}"
        )
    size = fmean(graph.node_count + graph.edge_count for graph in graphs)
    seconds = witness_sets.training_seconds(len(graphs), size)
    if seconds > max_seconds:
        raise WitnessesRefusedError(
            f"training witnesses on these graphs would take about {seconds:,.0f} s of a CPU core; "
            f"this deployment accepts at most {max_seconds:,.0f} s (D4_MAX_TRAINING_SECONDS)"
        )


def _train(
    context: HandlerContext, gnn: Gnn, reference: LabelledGraphs, plans: Sequence[WitnessPlan]
) -> WitnessSet:
    started = time.monotonic()

    def report(progress: WitnessProgress) -> None:
        seconds = time.monotonic() - started
        done = progress.finished + progress.epoch / progress.epochs
        metrics = {
            "epoch": float(progress.epoch),
            "epochs": float(progress.epochs),
            "seconds": rounded(seconds),
            "eta_seconds": rounded(seconds * (progress.total / done - 1)),
        }
        context.control.progress(_PHASE, progress.finished, progress.total, metrics)

    try:
        return train_witnesses(
            gnn,
            reference.graphs,
            true_labels(reference, gnn.spec.classes),
            seed=context.claim.seed,
            device=context.library.device,
            plans=plans,
            on_progress=report,
            should_stop=context.control.should_stop,
        )
    except WitnessTrainingStoppedError:
        context.control.raise_if_stopped()
        raise


def true_labels(reference: LabelledGraphs, classes: int) -> Tensor | None:
    """[graph] labels of the reference set; None unless every graph has a label of the GNN."""
    labels = [label for label in reference.labels if label is not None and label < classes]
    return torch.tensor(labels) if len(labels) == len(reference.labels) else None
