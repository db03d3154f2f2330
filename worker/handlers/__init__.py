"""One handler for each kind of job."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from store.jobs import JobKind
from worker.execution.handler_api import Handler
from worker.handlers.class_explanation import handle_class_explanation
from worker.handlers.comparison import handle_comparison
from worker.handlers.counterfactual import handle_counterfactual
from worker.handlers.evaluation import handle_evaluation, handle_evaluation_shard
from worker.handlers.global_explanation import handle_global_explanation
from worker.handlers.predict import handle_prediction
from worker.handlers.probe import handle_probe
from worker.handlers.provisional import handle_provisional
from worker.handlers.replay import handle_replay
from worker.handlers.train import handle_training
from worker.handlers.witnesses import handle_witnesses

HANDLERS: Mapping[JobKind, Handler] = MappingProxyType(
    {
        JobKind.PROBE: handle_probe,
        JobKind.PREDICT: handle_prediction,
        JobKind.TRAIN: handle_training,
        JobKind.WITNESSES: handle_witnesses,
        JobKind.PROVISIONAL: handle_provisional,
        JobKind.COUNTERFACTUAL: handle_counterfactual,
        JobKind.CLASS: handle_class_explanation,
        JobKind.GLOBAL: handle_global_explanation,
        JobKind.REPLAY: handle_replay,
        JobKind.EVALUATION_SHARD: handle_evaluation_shard,
        JobKind.EVALUATION: handle_evaluation,
        JobKind.COMPARISON: handle_comparison,
    }
)
