"""The figures of an evaluation as a CycloneDX model card.

https://cyclonedx.org/docs/1.6/json/#components_items_modelCard
"""

from __future__ import annotations

import uuid
from importlib.metadata import version
from typing import Any

from service.reports.audit.document import CYCLONEDX_VERSION, AuditReport, ReportFigure
from service.reports.audit.subject import Subject

_UNKNOWN_TRAINING = "Whether the GNN was trained on it is not known."

Json = dict[str, Any]


def model_card(subject: Subject, report: AuditReport) -> Json:
    """A bill of materials with the GNN and the data sets; figures are those of the report."""
    gnn, test = subject.gnn, subject.result.test
    model: Json = {
        "type": "machine-learning-model",
        "bom-ref": subject.gnn_id,
        "name": subject.gnn_id if gnn is None else gnn.name,
        "hashes": _hashes(subject.result.receipt.gnn_sha256),
        "modelCard": {
            "modelParameters": {
                "task": "graph classification",
                "architectureFamily": "graph neural network",
                "datasets": [{"ref": ref} for ref in sorted({subject.reference_id, test.dataset})],
            },
            "quantitativeAnalysis": {
                "performanceMetrics": [
                    _metric(figure) for figure in report.figures if figure.value is not None
                ]
            },
            "considerations": _considerations(subject, report),
        },
    }
    if gnn is not None:
        model["version"] = str(gnn.version)
        if gnn.description:
            model["description"] = gnn.description
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{CYCLONEDX_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": CYCLONEDX_VERSION,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, _identity(subject)).urn,
        "version": 1,
        "metadata": {
            "timestamp": report.written_at,
            "tools": {
                "components": [
                    {"type": "application", "name": "d4explain", "version": version("d4explain")}
                ]
            },
            "properties": [
                {"name": "d4explain:evaluation", "value": report.evaluation},
                {"name": "d4explain:result_sha256", "value": report.result_sha256},
                {"name": "d4explain:rows_sha256", "value": subject.result.rows_sha256},
            ],
        },
        "components": [model, *_data(subject)],
    }


def _identity(subject: Subject) -> str:
    """The same evaluation and purpose give the same serial number."""
    return f"{subject.result_sha256} {subject.purpose.text or ''}"


def _metric(figure: ReportFigure) -> Json:
    parts = [f"explainer {figure.explainer}"] if figure.explainer else []
    parts += [figure.slice] if figure.slice else []
    parts.append(f"n = {figure.count}" if figure.count is not None else "n unknown")
    metric: Json = {
        "type": figure.figure,
        "value": repr(figure.value),
        "slice": "; ".join(parts),
    }
    if figure.low is not None and figure.high is not None:
        bounds = {"lowerBound": repr(figure.low), "upperBound": repr(figure.high)}
        metric["confidenceInterval"] = bounds
    return metric


def _considerations(subject: Subject, report: AuditReport) -> Json:
    missing = [
        f"{figure.figure} was not measured"
        + (f" for {figure.explainer}" if figure.explainer else "")
        + f": {figure.note}."
        for figure in report.figures
        if figure.value is None
    ]
    limits = [
        "Confidence intervals are 95 %, over the test graphs; they do not cover retraining.",
        *subject.warnings,
        *missing,
    ]
    considerations: Json = {"technicalLimitations": limits}
    if subject.purpose.text is not None:
        considerations["useCases"] = [subject.purpose.text]
    return considerations


def _data(subject: Subject) -> list[Json]:
    test, receipt = subject.result.test, subject.result.receipt
    reference, test_set = subject.reference, subject.test_set
    named = [
        (subject.reference_id, reference, receipt.dataset_sha256, "Reference set."),
        (test.dataset, test_set, test.sha256, "Test set of the evaluation."),
    ]
    components: dict[str, Json] = {}
    for ref, dataset, sha256, role in named:
        if ref in components:  # the whole reference set is the test set
            components[ref]["description"] = f"Reference and test set. {_UNKNOWN_TRAINING}"
            continue
        components[ref] = {
            "type": "data",
            "bom-ref": ref,
            "name": ref if dataset is None else dataset.name,
            **({} if dataset is None else {"version": str(dataset.version)}),
            "hashes": _hashes(sha256),
            "description": f"{role} {_UNKNOWN_TRAINING}",
        }
    return list(components.values())


def _hashes(sha256: str) -> list[Json]:
    return [{"alg": "SHA-256", "content": sha256}]
