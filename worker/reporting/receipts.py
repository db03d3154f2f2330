"""Writes receipts (everything needed to check and repeat an explanation) and timings."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from d4explain.contracts import plugins
from d4explain.contracts.receipts.receipt import (
    Cut,
    GnnForm,
    ObjectiveFallback,
    Receipt,
)
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import Timings
from d4explain.gnn.network import Gnn
from store.artifacts.graph_sets import canonical_graph_hash
from store.database.tables import Denoiser
from worker.execution.handler_api import HandlerContext
from worker.loading.job_inputs import JobInputs
from worker.loading.open_gnn import black_box_of
from worker.reporting.documents import rounded
from worker.reporting.environment import environment_of

_PACKAGES = ("d4explain", "torch", "torch_geometric")


def receipt(
    context: HandlerContext,
    inputs: JobInputs,
    gnn: Gnn,
    *,
    seed: int,
    config: dict[str, object],
    work: Mapping[str, int | float],
    graphs: Sequence[CanonicalGraph] = (),
    cuts: Sequence[Cut] = (),
) -> Receipt:
    denoiser, witnesses, library = inputs.denoiser, inputs.witness_set, context.library
    return Receipt(
        request_sha256=context.claim.request_digest or "",
        gnn=inputs.gnn.id,
        gnn_sha256=inputs.gnn.sha256,
        dataset=inputs.dataset.id,
        dataset_sha256=inputs.dataset.sha256,
        graphs_sha256=[canonical_graph_hash(graph) for graph in graphs],
        denoiser_sha256=None if denoiser is None else denoiser.weights_sha256,
        denoiser_key=None if denoiser is None else denoiser.key,
        witnesses_sha256=None if witnesses is None else witnesses.weights_digest,
        witnesses_key=None if witnesses is None else witnesses.key,
        witness_failure=inputs.witness_failure,
        judges={judge.id: judge.sha256 for judge in inputs.judges},
        config=config,
        limits=library.limits,
        seed=seed,
        device=str(library.device),
        environment=environment_of(library.device),
        versions=dict(versions())
        | {used.package: used.version for used in plugins.used_plugins(inputs.gnn.spec)},
        gnn_form=_form(gnn),
        objective_fallback=_objective_fallback(denoiser),
        work=dict(work),
        cuts=list(cuts),
    )


def timings(started: float, loaded: float, explained: float) -> Timings:
    """Seconds between these times of the monotonic clock; the MMD ends now."""
    return Timings(
        load_seconds=rounded(loaded - started),
        explain_seconds=rounded(explained - loaded),
        mmd_seconds=rounded(time.monotonic() - explained),
    )


def _objective_fallback(denoiser: Denoiser | None) -> ObjectiveFallback | None:
    metrics = None if denoiser is None else denoiser.metrics
    return (metrics or {}).get("objective_fallback")


def _form(gnn: Gnn) -> GnnForm:
    if black_box_of(gnn) is not None:
        return "black_box"
    return "dense" if gnn.has_dense else "sparse"


def form_warnings(gnn: Gnn) -> list[str]:
    if _form(gnn) != "sparse":
        return []
    return [
        "the GNN has no dense form: the search evaluated its sparse form and ranked edits without "
        "its gradient"
    ]


@cache
def versions() -> tuple[tuple[str, str], ...]:
    return (
        *((package, _version(package)) for package in _PACKAGES),
        ("python", platform.python_version()),
        ("machine", platform.machine()),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"
