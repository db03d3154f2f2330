"""Evaluations, their shards, and comparisons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0025"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    op.add_column("jobs", sa.Column("waiting_for_shards", sa.Boolean(), nullable=True))
    op.create_table(
        "evaluations",
        *_resource_columns(),
        sa.Column("gnn_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("test_dataset_id", sa.String(length=32), nullable=False),
        sa.Column("denoiser_id", sa.String(length=32)),
        sa.Column("witness_set_id", sa.String(length=32)),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("explainers", json, nullable=False),
        sa.Column("instance_count", sa.Integer(), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("graphs_digest", sa.String(length=64), nullable=False),
        sa.Column("result_digest", sa.String(length=64)),
        sa.Column("parquet_digest", sa.String(length=64)),
        sa.Column("summary", json),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
    )
    op.create_index("evaluations_by_time", "evaluations", ["tenant_id", "created_at", "id"])
    op.create_index("evaluations_by_job", "evaluations", ["job_id"])
    op.create_table(
        "evaluation_shards",
        *_resource_columns(),
        sa.Column("evaluation_id", sa.String(length=32), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("rows_digest", sa.String(length=64)),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluations.id"], ondelete="CASCADE"),
    )
    op.create_index(
        "evaluation_shards_by_evaluation",
        "evaluation_shards",
        ["evaluation_id", "first"],
        unique=True,
    )
    op.create_index("evaluation_shards_by_job", "evaluation_shards", ["job_id"])
    op.create_table(
        "comparisons",
        *_resource_columns(),
        sa.Column("baseline_id", sa.String(length=32), nullable=False),
        sa.Column("candidate_id", sa.String(length=32), nullable=False),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("result", json),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
    )
    op.create_index("comparisons_by_time", "comparisons", ["tenant_id", "created_at", "id"])
    op.create_index("comparisons_by_job", "comparisons", ["job_id"])


def downgrade() -> None:
    for name in ("comparisons", "evaluation_shards", "evaluations"):
        op.drop_table(name)
    op.drop_column("jobs", "waiting_for_shards")


def _resource_columns() -> tuple[sa.Column[str], sa.Column[str], sa.Column[float]]:
    return (
        sa.Column("id", sa.String(length=32), primary_key=True),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
    )
