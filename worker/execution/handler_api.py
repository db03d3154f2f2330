"""The interface between the runner and the handlers of job kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy.orm import Session

from store.jobs import Claim
from store.store import Store
from worker.execution.control import Control
from worker.execution.phases import Phases
from worker.loading.library import Library


@dataclass(frozen=True)
class HandlerContext:
    """Everything a handler gets for one attempt of one job."""

    claim: Claim
    control: Control
    store: Store
    library: Library  # caches GNNs, denoisers and reference sets between jobs
    phases: Phases = field(default_factory=Phases)


def record_nothing(_: Session) -> None:
    pass


@dataclass(frozen=True)
class HandlerOutput:
    """What a successful attempt leaves; `record` runs in the transaction that ends the job."""

    result: dict[str, Any] | None = None
    record: Callable[[Session], None] = record_nothing


Handler: TypeAlias = Callable[[HandlerContext], HandlerOutput]
