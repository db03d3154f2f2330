"""Receipts: everything needed to check and repeat an explanation."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from d4explain.contracts import plugins
from d4explain.contracts.results import GnnForm, Receipt
from d4explain.gnn.network import Gnn
from worker.execution.handler_api import Work
from worker.loading.job_inputs import JobInputs
from worker.loading.open_gnn import black_box_of

_PACKAGES = ("d4explain", "torch", "torch_geometric")


def receipt(
    work: Work,
    subjects: JobInputs,
    gnn: Gnn,
    *,
    seed: int,
    config: dict[str, object],
    done: Mapping[str, int | float],
) -> Receipt:
    return Receipt(
        request_sha256=work.claim.request_digest or "",
        gnn=subjects.gnn.id,
        gnn_sha256=subjects.gnn.sha256,
        dataset_sha256=subjects.dataset.sha256,
        denoiser_sha256=subjects.denoiser.weights_sha256 or "",
        denoiser_key=subjects.denoiser.key,
        config=config,
        seed=seed,
        device=str(work.library.device),
        versions=dict(versions())
        | {used.package: used.version for used in plugins.used(subjects.gnn.spec)},
        gnn_form=_form(gnn),
        objective_fallback=(subjects.denoiser.metrics or {}).get("objective_fallback"),
        work=dict(done),
    )


def _form(gnn: Gnn) -> GnnForm:
    if black_box_of(gnn) is not None:
        return "black_box"
    return "dense" if gnn.has_dense else "sparse"


def form_warnings(gnn: Gnn) -> list[str]:
    if _form(gnn) != "sparse":
        return []
    return [
        "the GNN has no dense form: candidates were judged by its sparse form and ranked without "
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
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
