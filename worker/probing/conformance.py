"""The conformance probe: what a GNN must satisfy before it can be explained.

The probe runs checks on graphs drawn with a fixed seed and on some of the samples that were
registered with the GNN. It asks a node classifier about all nodes of all graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport
from d4explain.gnn.network import Gnn
from worker.execution.failures import failure_of
from worker.probing.checks import CHECKS, Verdict
from worker.probing.degeneracy import degeneracy_warnings
from worker.probing.labelled_samples import Samples, sample_checks, sample_figures
from worker.probing.probe_subject import ProbeSubject, probe_subject

_REQUIRED_BY_OTHERS = ("shapes", "finite")


def probe(gnn: Gnn, device: torch.device, samples: Samples | None = None) -> ProbeReport:
    """Runs all checks in order; stops early if the GNN's output is unusable."""
    subject = probe_subject(gnn.eval(), device, samples)
    checks: list[ProbeCheck] = []
    for name, check in CHECKS:
        if name == "dense_equals_sparse" and not gnn.has_dense:
            continue
        checks.append(_run_check(name, check, subject))
        if name in _REQUIRED_BY_OTHERS and not checks[-1].passed:
            return ProbeReport(passed=False, checks=checks)
    figures = None
    if samples is not None:
        probabilities = samples.probabilities(gnn, device)  # [sample, class]
        figures = sample_figures(samples, probabilities)
        checks += sample_checks(samples, probabilities, figures)
    passed = all(check.passed for check in checks)
    dense: Literal["present", "absent"] = "present" if gnn.has_dense else "absent"
    return ProbeReport(
        passed=passed,
        checks=checks,
        dense=dense,
        samples=figures,
        warnings=degeneracy_warnings(subject) if passed else [],
    )


def _run_check(
    name: str, check: Callable[[ProbeSubject], Verdict], subject: ProbeSubject
) -> ProbeCheck:
    try:
        verdict = check(subject)
    except Exception as error:
        if failure_of(error).retryable:
            raise  # the worker failed, not the GNN
        verdict = Verdict(False, f"failed with {type(error).__name__}: {error}")
    return ProbeCheck(
        name=name, passed=verdict.passed, detail=verdict.detail, example=verdict.example
    )
