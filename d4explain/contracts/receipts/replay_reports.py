"""What a replay found: whether the recorded work gives the recorded answer again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from d4explain.contracts.receipts.receipt import ReceiptPart

Leaf = int | float | str | bool | None
MAX_DIFFERENCES = 20


class ReplayOutcome(StrEnum):
    MATCH = "match"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not_comparable"


class Difference(ReceiptPart):
    """One place at which the repeated answer is not the recorded one."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the answer.")
    graph: int | None = Field(
        description="Position of the graph, node or class example; null if it is none of them."
    )
    recorded: Leaf = Field(
        description="The recorded value; of a list or an object its size; null if it is missing."
    )
    repeated: Leaf = Field(description="The repeated value, shown in the same way.")


class ReplayReport(ReceiptPart):
    outcome: ReplayOutcome = Field(
        description="`match`: the work gave the same answer again. `differs`: it did not. "
        "`not_comparable`: it was not repeated, because this worker would round differently."
    )
    reason: str | None = Field(
        description="Why nothing was compared; null unless the outcome is `not_comparable`."
    )
    compared_values: int = Field(description="Numbers and texts that were compared, 0 or more.")
    difference_count: int = Field(description="All differences, also those that are not listed.")
    differences: Annotated[
        list[Difference], Field(description=f"The first {MAX_DIFFERENCES} differences.")
    ]
    changed_versions: dict[str, list[str | None]] = Field(
        description="Packages that have another version now: the recorded one and the present one."
    )
    seconds: float = Field(description="Time of the repeated work.")
