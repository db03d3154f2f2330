"""The tables of networks that the service trains."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.job_states import TrainingState
from store.database.tables.base import DIGEST, ID, JsonObject, Resource


class Trained(Resource):
    """Networks that are trained once for one GNN and one reference set."""

    __abstract__ = True

    key: Mapped[str] = mapped_column(DIGEST)  # hash of everything that the training depends on
    gnn_id: Mapped[str] = mapped_column(ID, ForeignKey("gnns.id"))
    dataset_id: Mapped[str] = mapped_column(ID, ForeignKey("datasets.id"))
    state: Mapped[TrainingState] = mapped_column(default=TrainingState.TRAINING)
    weights_digest: Mapped[str | None] = mapped_column(DIGEST)
    metrics: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    used_at: Mapped[float | None]  # to the hour; None if never since it was created


class Denoiser(Trained):
    """The diffusion network of one GNN, reference set, objective and config."""

    __tablename__ = "denoisers"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key", name="denoisers_key"),
        Index("denoisers_by_time", "tenant_id", "created_at", "id"),
        Index("denoisers_by_gnn", "gnn_id"),
        Index("denoisers_by_dataset", "dataset_id"),
        Index("denoisers_by_job", "job_id"),
    )

    objective: Mapped[str] = mapped_column(String(24))
    config: Mapped[JsonObject]
    weights_sha256: Mapped[str | None] = mapped_column(DIGEST)
    shape: Mapped[JsonObject | None]
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`


class WitnessSet(Trained):
    """The witnesses of one GNN and reference set: small GNNs that share its flips or do not."""

    __tablename__ = "witness_sets"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key", name="witness_sets_key"),
        Index("witness_sets_by_gnn", "gnn_id"),
        Index("witness_sets_by_dataset", "dataset_id"),
        Index("witness_sets_by_job", "job_id"),
    )

    description: Mapped[JsonObject | None]  # {"witnesses": […]}: what the weights belong to
