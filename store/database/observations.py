"""Figures that a transaction observes. They are published after its commit, so each counts once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sqlalchemy.orm import Session

_NOTED = "observations"  # key in `session.info`; a session lives for one transaction

RECENT = 100  # observations that the ratio of a `SHARE` covers


class SeriesType(Enum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    LATEST = "latest"  # a gauge: the newest value
    SHARE = "share"  # a gauge: the mean of the last `RECENT` values, each 0 or 1


@dataclass(frozen=True)
class Series:
    """One metric. `by_model` ones have the labels of a `ModelGroup` and a class for their tenant.

    Figures of the whole deployment have `labels` only, so that they name nothing of a tenant.
    """

    name: str
    help: str
    type: SeriesType
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds of a histogram
    by_model: bool = False
    deployment: bool = True  # False: a sum over models and tenants would mean nothing


class ModelGroup(NamedTuple):
    """What the figures of an answer belong to."""

    gnn: str
    version: str
    dataset: str
    dataset_version: str


@dataclass(frozen=True)
class Observation:
    series: Series
    tenant: str
    values: tuple[float, ...]
    labels: tuple[str, ...] = ()  # values of `series.labels`
    group: ModelGroup | None = None
    class_name: str = ""  # with `group`


Publish = Callable[[Sequence[Observation]], None]


def publish_nothing(_: Sequence[Observation]) -> None:
    pass


def note(session: Session, observations: Sequence[Observation]) -> None:
    """Publishes them if this transaction is committed."""
    session.info.setdefault(_NOTED, []).extend(observations)


def take(session: Session) -> list[Observation]:
    """All observations of a transaction, once."""
    taken: list[Observation] = session.info.pop(_NOTED, [])
    return taken
