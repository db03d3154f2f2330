"""The tables of running processes."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.database.clock import now
from store.database.tables.base import Table


class Worker(Table):
    """A worker process and the time of its last heartbeat."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    queues: Mapped[str] = mapped_column(String(100))  # comma-separated
    device: Mapped[str] = mapped_column(String(50))
    pid: Mapped[int]
    job_format: Mapped[int] = mapped_column(server_default="1")  # the newest that it knows
    version: Mapped[str] = mapped_column(String(64), server_default="unknown")
    machine: Mapped[str] = mapped_column(String(64), server_default="unknown")  # see `machine_id`
    started_at: Mapped[float] = mapped_column(default=now())
    seen_at: Mapped[float] = mapped_column(default=now())


class Lead(Table):
    """The process that leads in a role, until its lease expires."""

    __tablename__ = "leads"

    name: Mapped[str] = mapped_column(String(50), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    owner: Mapped[str] = mapped_column(String(200))
    lease_until: Mapped[float]
    broker_epoch: Mapped[str | None] = mapped_column(String(64))
