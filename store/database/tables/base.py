"""What all tables share: column types, base classes and rows outside of a session."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import JSON, BigInteger, Double, Enum, Integer, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, class_mapper, mapped_column

from d4explain.contracts.job_states import (
    EventType,
    GnnState,
    JobKind,
    JobState,
    Queue,
    Stage,
    TrainingState,
)
from d4explain.contracts.scopes import TokenKind
from d4explain.contracts.webhooks import DeliveryState, WebhookEvent
from store.database.clock import now

JsonObject = dict[str, Any]
JsonTexts = list[str]
JsonObjects = list[dict[str, Any]]

_JSON = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
ID = String(32)
DIGEST = String(64)  # sha256, hex
# SQLite numbers rows only if the key is exactly INTEGER.
SERIAL = BigInteger().with_variant(Integer(), "sqlite")


def text_enum(choices: type[StrEnum]) -> Enum:
    """Stored as plain text, so that a new choice needs no migration."""
    return Enum(
        choices,
        native_enum=False,
        create_constraint=False,
        length=24,
        values_callable=lambda members: [member.value for member in members],
    )


class Table(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - read once by SQLAlchemy
        float: Double(),
        JsonObject: _JSON,
        JsonTexts: _JSON,
        JsonObjects: _JSON,
        JobState: text_enum(JobState),
        JobKind: text_enum(JobKind),
        Queue: text_enum(Queue),
        Stage: text_enum(Stage),
        GnnState: text_enum(GnnState),
        TrainingState: text_enum(TrainingState),
        EventType: text_enum(EventType),
        TokenKind: text_enum(TokenKind),
        WebhookEvent: text_enum(WebhookEvent),
        DeliveryState: text_enum(DeliveryState),
    }


Model = TypeVar("Model", bound=Table)


class Resource(Table):
    """A row that a client can list and get by id."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(ID, primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[float] = mapped_column(default=now())


def written(model: type[Model], values: Mapping[str, Any]) -> Model:
    """The inserted row as an object outside of any session; missing values are None.

    The constructor would track every value as a change, which takes ten times as long.
    """
    mapper = class_mapper(model)
    row: Model = mapper.class_manager.new_instance()
    vars(row).update(dict.fromkeys(mapper.columns.keys()), **values)
    return row
