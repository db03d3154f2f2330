"""Examples in the OpenAPI document; together they follow one GNN from registration on."""

from __future__ import annotations

from service.examples.class_explanations import CLASS_EXPLANATION
from service.examples.data_life import (
    HOLD,
    HOLD_IN,
    HOLDS,
    QUOTAS,
    RETENTION,
    RETENTION_IN,
)
from service.examples.datasets import (
    DATASET,
    DATASET_IN,
    EDGE_ATTRIBUTES_IN,
    LARGE_DATASET,
    LARGE_LINES,
)
from service.examples.denoisers import DENOISER, DENOISER_IN, TRAINING_DENOISER
from service.examples.explanations import (
    CLASS_IN,
    COUNTERFACTUAL_IN,
    CYTOSCAPE,
    ESTIMATE,
    EXPLANATION,
    GRAPHML,
    LARGE_NODE_IN,
    LISTED_EXPLANATION,
    MANY_IN,
    NODES_IN,
    PROVISIONAL_EXPLANATION,
    PROVISIONAL_RESULT,
    PYG,
    SEARCH_IN,
    SVG,
    WAITING_EXPLANATION,
)
from service.examples.gnns import (
    ALIAS_IN,
    ARCHIVE_IN,
    BLACK_BOX_IN,
    GNN,
    GNN_IN,
    GNN_PATCH,
    PROBING_GNN,
)
from service.examples.graphs import DATASET_GRAPHS, GRAPH_PREVIEW, GRAPH_PREVIEW_IN
from service.examples.health import NOT_READY, READY
from service.examples.jobs import CANCELED_JOB, EVENTS, RETRY_JOB, TRAIN_JOB
from service.examples.predictions import (
    NODE_PREDICTIONS,
    NODE_PREDICTIONS_IN,
    PREDICTIONS,
    PREDICTIONS_IN,
    PREDICTIONS_LATER,
)
from service.examples.problems import page, problem
from service.examples.receipts import REPLAY, WAITING_REPLAY
from service.examples.reports import GRAFANA, LETTER, REPORT
from service.examples.shared import GNN_ID
from service.examples.webhooks import (
    DELIVERY,
    NEW_WEBHOOK,
    PENDING_DELIVERY,
    REQUEST_WEBHOOK,
    WEBHOOK,
    WEBHOOK_IN,
    WEBHOOK_PATCH,
)

__all__ = [
    "ALIAS_IN",
    "ARCHIVE_IN",
    "BLACK_BOX_IN",
    "CANCELED_JOB",
    "CLASS_EXPLANATION",
    "CLASS_IN",
    "COUNTERFACTUAL_IN",
    "CYTOSCAPE",
    "DATASET",
    "DATASET_GRAPHS",
    "DATASET_IN",
    "DELIVERY",
    "DENOISER",
    "DENOISER_IN",
    "EDGE_ATTRIBUTES_IN",
    "ESTIMATE",
    "EVENTS",
    "EXPLANATION",
    "GNN",
    "GNN_ID",
    "GNN_IN",
    "GNN_PATCH",
    "GRAFANA",
    "GRAPHML",
    "GRAPH_PREVIEW",
    "GRAPH_PREVIEW_IN",
    "HOLD",
    "HOLDS",
    "HOLD_IN",
    "LARGE_DATASET",
    "LARGE_LINES",
    "LARGE_NODE_IN",
    "LETTER",
    "LISTED_EXPLANATION",
    "MANY_IN",
    "NEW_WEBHOOK",
    "NODES_IN",
    "NODE_PREDICTIONS",
    "NODE_PREDICTIONS_IN",
    "NOT_READY",
    "PENDING_DELIVERY",
    "PREDICTIONS",
    "PREDICTIONS_IN",
    "PREDICTIONS_LATER",
    "PROBING_GNN",
    "PROVISIONAL_EXPLANATION",
    "PROVISIONAL_RESULT",
    "PYG",
    "QUOTAS",
    "READY",
    "REPLAY",
    "REPORT",
    "REQUEST_WEBHOOK",
    "RETENTION",
    "RETENTION_IN",
    "RETRY_JOB",
    "SEARCH_IN",
    "SVG",
    "TRAINING_DENOISER",
    "TRAIN_JOB",
    "WAITING_EXPLANATION",
    "WAITING_REPLAY",
    "WEBHOOK",
    "WEBHOOK_IN",
    "WEBHOOK_PATCH",
    "page",
    "problem",
]
