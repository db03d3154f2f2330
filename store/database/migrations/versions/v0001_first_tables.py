"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("graphs_digest", sa.String(length=64), nullable=False),
        sa.Column("graph_count", sa.Integer(), nullable=False),
        sa.Column("features", sa.Integer(), nullable=False),
        sa.Column("label_counts", _json(), nullable=False),
        sa.Column("max_nodes", sa.Integer(), nullable=False),
        sa.Column("mean_nodes", sa.Double(), nullable=False),
        sa.Column("mean_edges", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("datasets_by_content", "datasets", ["tenant_id", "sha256"])
    op.create_index("datasets_by_time", "datasets", ["tenant_id", "created_at", "id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("route", sa.String(length=255), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "key"),
    )
    op.create_index("idempotency_keys_by_expiry", "idempotency_keys", ["expires_at"])
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("queue", sa.String(length=24), nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("releases", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("waiting_for", sa.String(length=32), nullable=True),
        sa.Column("subject_id", sa.String(length=32), nullable=True),
        sa.Column("gnn_id", sa.String(length=32), nullable=True),
        sa.Column("dataset_id", sa.String(length=32), nullable=True),
        sa.Column("denoiser_id", sa.String(length=32), nullable=True),
        sa.Column("request_digest", sa.String(length=64), nullable=True),
        sa.Column("result", _json(), nullable=True),
        sa.Column("error", _json(), nullable=True),
        sa.Column("progress", _json(), nullable=True),
        sa.Column("checkpoint", _json(), nullable=True),
        sa.Column("retry_of", sa.String(length=32), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("next_dispatch_at", sa.Double(), nullable=False),
        sa.Column("dispatches", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["retry_of"], ["jobs.id"]),
        sa.ForeignKeyConstraint(["waiting_for"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_by_dataset", "jobs", ["dataset_id"])
    op.create_index("jobs_by_gnn", "jobs", ["gnn_id"])
    op.create_index("jobs_by_lease", "jobs", ["state", "lease_until"])
    op.create_index("jobs_by_retry_of", "jobs", ["retry_of"], unique=True)
    op.create_index("jobs_by_time", "jobs", ["tenant_id", "created_at", "id"])
    op.create_index("jobs_by_waiting_for", "jobs", ["waiting_for"])
    op.create_index("jobs_to_dispatch", "jobs", ["state", "next_dispatch_at"])
    op.create_table(
        "leads",
        sa.Column("name", sa.String(length=50), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("broker_epoch", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("queues", sa.String(length=100), nullable=False),
        sa.Column("device", sa.String(length=50), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "explanations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("gnn_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("denoiser_id", sa.String(length=32), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("result_digest", sa.String(length=64), nullable=True),
        sa.Column("summary", _json(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("explanations_by_job", "explanations", ["job_id"])
    op.create_index("explanations_by_time", "explanations", ["tenant_id", "created_at", "id"])
    op.create_table(
        "gnns",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("spec", _json(), nullable=False),
        sa.Column("weights_digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("report", _json(), nullable=True),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("gnns_by_content", "gnns", ["tenant_id", "sha256"])
    op.create_index("gnns_by_time", "gnns", ["tenant_id", "created_at", "id"])
    op.create_table(
        "job_events",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("type", sa.String(length=24), nullable=False),
        sa.Column("data", _json(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("job_events_by_job", "job_events", ["job_id", "id"])
    op.create_table(
        "denoisers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("gnn_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("objective", sa.String(length=24), nullable=False),
        sa.Column("config", _json(), nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("weights_digest", sa.String(length=64), nullable=True),
        sa.Column("weights_sha256", sa.String(length=64), nullable=True),
        sa.Column("shape", _json(), nullable=True),
        sa.Column("metrics", _json(), nullable=True),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"]),
        sa.ForeignKeyConstraint(["gnn_id"], ["gnns.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "key", name="denoisers_key"),
    )
    op.create_index("denoisers_by_dataset", "denoisers", ["dataset_id"])
    op.create_index("denoisers_by_gnn", "denoisers", ["gnn_id"])
    op.create_index("denoisers_by_job", "denoisers", ["job_id"])
    op.create_index("denoisers_by_time", "denoisers", ["tenant_id", "created_at", "id"])


def downgrade() -> None:
    op.drop_table("denoisers")
    op.drop_table("job_events")
    op.drop_table("gnns")
    op.drop_table("explanations")
    op.drop_table("workers")
    op.drop_table("leads")
    op.drop_table("jobs")
    op.drop_table("idempotency_keys")
    op.drop_table("datasets")


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
