"""The tables of the store. Times are seconds since the epoch by the database's clock.

Importing this package makes all tables known to `Table.metadata`.
"""

from __future__ import annotations

from store.database.tables.access import ApiKey, TemporaryToken
from store.database.tables.audit import AuditEntry, SigningKey
from store.database.tables.base import Resource, Table
from store.database.tables.data_life import (
    ArtifactEntry,
    Deletion,
    Hold,
    IdempotencyKey,
    TenantPolicy,
    TenantUsage,
)
from store.database.tables.evaluations import Comparison, Evaluation, EvaluationShard
from store.database.tables.explanations import Explanation, Replay
from store.database.tables.inputs import Dataset, DatasetName, Gnn, GnnAlias, GnnName
from store.database.tables.jobs import Job, JobEvent, JobTotal
from store.database.tables.metadata import MetadataEntry
from store.database.tables.processes import Lead, Worker
from store.database.tables.trained import Denoiser, Trained, WitnessSet
from store.database.tables.webhooks import Webhook, WebhookDelivery

__all__ = [
    "ApiKey",
    "ArtifactEntry",
    "AuditEntry",
    "Comparison",
    "Dataset",
    "DatasetName",
    "Deletion",
    "Denoiser",
    "Evaluation",
    "EvaluationShard",
    "Explanation",
    "Gnn",
    "GnnAlias",
    "GnnName",
    "Hold",
    "IdempotencyKey",
    "Job",
    "JobEvent",
    "JobTotal",
    "Lead",
    "MetadataEntry",
    "Replay",
    "Resource",
    "SigningKey",
    "Table",
    "TemporaryToken",
    "TenantPolicy",
    "TenantUsage",
    "Trained",
    "Webhook",
    "WebhookDelivery",
    "WitnessSet",
    "Worker",
]
