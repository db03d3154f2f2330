"""What is done for each kind of job."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from store.jobs import JobKind
from worker.execution.handler_api import Handler
from worker.handlers.class_explanation import explain_class_job
from worker.handlers.counterfactual import explain_counterfactually
from worker.handlers.predict import predict_graphs
from worker.handlers.probe import probe_gnn
from worker.handlers.train import train_denoiser

HANDLERS: Mapping[JobKind, Handler] = MappingProxyType(
    {
        JobKind.PROBE: probe_gnn,
        JobKind.PREDICT: predict_graphs,
        JobKind.TRAIN: train_denoiser,
        JobKind.COUNTERFACTUAL: explain_counterfactually,
        JobKind.CLASS: explain_class_job,
    }
)
