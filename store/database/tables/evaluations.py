"""The tables of evaluations, their shards and their comparisons."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from store.database.tables.base import DIGEST, ID, JsonObject, JsonTexts, Resource


class Evaluation(Resource):
    """Explainers and a GNN over a test set; the job computes the figures from all rows."""

    __tablename__ = "evaluations"
    __table_args__ = (
        Index("evaluations_by_time", "tenant_id", "created_at", "id"),
        Index("evaluations_by_job", "job_id"),
    )

    # No foreign keys: an evaluation outlives the resources that it used.
    gnn_id: Mapped[str] = mapped_column(ID)
    dataset_id: Mapped[str] = mapped_column(ID)  # the reference set
    test_dataset_id: Mapped[str] = mapped_column(ID)
    denoiser_id: Mapped[str | None] = mapped_column(ID)
    witness_set_id: Mapped[str | None] = mapped_column(ID)
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    explainers: Mapped[JsonTexts]
    instance_count: Mapped[int]
    request_digest: Mapped[str] = mapped_column(DIGEST)
    graphs_digest: Mapped[str] = mapped_column(DIGEST)  # the instances
    result_digest: Mapped[str | None] = mapped_column(DIGEST)
    parquet_digest: Mapped[str | None] = mapped_column(DIGEST)  # all rows
    summary: Mapped[JsonObject | None]
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`


class EvaluationShard(Resource):
    """A range of instances; its rows are committed by the job that explains them."""

    __tablename__ = "evaluation_shards"
    __table_args__ = (
        Index("evaluation_shards_by_evaluation", "evaluation_id", "first", unique=True),
        Index("evaluation_shards_by_job", "job_id"),
    )

    evaluation_id: Mapped[str] = mapped_column(ID, ForeignKey("evaluations.id", ondelete="CASCADE"))
    first: Mapped[int]  # instance
    count: Mapped[int]
    # No foreign key: a shard with rows outlives its job.
    job_id: Mapped[str] = mapped_column(ID)
    rows_digest: Mapped[str | None] = mapped_column(DIGEST)


class Comparison(Resource):
    """What moved between two evaluations."""

    __tablename__ = "comparisons"
    __table_args__ = (
        Index("comparisons_by_time", "tenant_id", "created_at", "id"),
        Index("comparisons_by_job", "job_id"),
    )

    # No foreign keys: a comparison outlives its evaluations.
    baseline_id: Mapped[str] = mapped_column(ID)
    candidate_id: Mapped[str] = mapped_column(ID)
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    request_digest: Mapped[str] = mapped_column(DIGEST)
    result: Mapped[JsonObject | None]
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`
