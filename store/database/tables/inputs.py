"""The tables of GNNs and reference sets, with the names of their versions."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.job_states import GnnState
from store.database.tables.base import DIGEST, ID, JsonObject, JsonTexts, Resource, Table


class Gnn(Resource):
    """A trained classifier to explain."""

    __tablename__ = "gnns"
    __table_args__ = (
        Index("gnns_by_time", "tenant_id", "created_at", "id"),
        Index("gnns_by_content", "tenant_id", "sha256"),
        Index("gnns_by_name", "tenant_id", "name", "version", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int]  # consecutive per name, assigned by GnnName
    description: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[JsonObject] = mapped_column(default=dict)  # {"stage": "beta", …}
    sha256: Mapped[str] = mapped_column(DIGEST)  # of spec and weights
    spec: Mapped[JsonObject]
    weights_digest: Mapped[str] = mapped_column(DIGEST)
    state: Mapped[GnnState] = mapped_column(default=GnnState.PROBING)
    report: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`


class GnnName(Table):
    """Counts the versions of a name; it outlives them, so no version number is reused."""

    __tablename__ = "gnn_names"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int]


class DatasetName(Table):
    """Counts the versions of a reference set's name, as `GnnName` does."""

    __tablename__ = "dataset_names"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int]


class GnnAlias(Table):
    """An alias such as `production` for one version of a name."""

    __tablename__ = "gnn_aliases"
    __table_args__ = (Index("gnn_aliases_by_gnn", "gnn_id"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    gnn_id: Mapped[str] = mapped_column(ID, ForeignKey("gnns.id"))


class Dataset(Resource):
    """Graphs of the distribution a GNN was trained on."""

    __tablename__ = "datasets"
    __table_args__ = (
        Index("datasets_by_time", "tenant_id", "created_at", "id"),
        Index("datasets_by_content", "tenant_id", "sha256"),
        Index("datasets_by_name", "tenant_id", "name", "version", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int] = mapped_column(server_default="0")
    sha256: Mapped[str] = mapped_column(DIGEST)
    graphs_digest: Mapped[str] = mapped_column(DIGEST)
    graph_count: Mapped[int]
    features: Mapped[int]
    edge_features: Mapped[int] = mapped_column(default=0, server_default="0")
    label_counts: Mapped[JsonObject]  # {"0": 120, …}; unlabelled graphs are not counted
    max_nodes: Mapped[int]
    mean_nodes: Mapped[float]
    mean_edges: Mapped[float]
    # One graph in compressed rows; requests refer to its nodes by number.
    large: Mapped[bool] = mapped_column(default=False)
    warnings: Mapped[JsonTexts | None]  # what was left out of the posted graphs
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`
