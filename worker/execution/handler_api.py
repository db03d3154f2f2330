"""What a handler is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy.orm import Session

from store.jobs import Claim
from store.store import Store
from worker.execution.control import Control
from worker.loading.library import Library


@dataclass(frozen=True)
class Work:
    """One attempt of one job."""

    claim: Claim
    control: Control
    store: Store
    library: Library  # GNNs, denoisers and reference sets, kept warm between jobs


def nothing(_: Session) -> None:
    pass


@dataclass(frozen=True)
class Outcome:
    """A finished job; `record` writes it in the transaction that ends the job."""

    result: dict[str, Any] | None = None
    record: Callable[[Session], None] = nothing


Handler: TypeAlias = Callable[[Work], Outcome]
