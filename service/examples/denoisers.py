"""Examples of denoisers."""

from __future__ import annotations

from service.examples.jobs import PROGRESS, TRAIN_JOB, train_job
from service.examples.shared import CREATED, DENOISER_ID, GNN_ID, SET_ID, SHA, Example

DENOISER_IN: Example = {
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "objective": "counterfactual",
    "config": {"recipe": "default", "steps": 2000, "seed": 7},
}
TRAINING_DENOISER: Example = {
    "id": DENOISER_ID,
    "gnn": GNN_ID,
    "dataset": SET_ID,
    "objective": "counterfactual",
    "config": {
        "recipe": "default",
        "steps": 2000,
        "hidden": None,
        "blocks": None,
        "alpha": None,
        "seed": 7,
    },
    "state": "training",
    "key": SHA,
    "weights_sha256": None,
    "metrics": None,
    "metadata": {},
    "job": TRAIN_JOB,
    "created_at": CREATED,
}
DENOISER: Example = {
    **TRAINING_DENOISER,
    "state": "ready",
    "weights_sha256": SHA,
    "metrics": {"loss": 0.118, "detection_auc": 0.97, "validity": 0.91},
    "job": train_job("succeeded", {**PROGRESS, "step": 2000}),
}
