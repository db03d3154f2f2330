"""The request of a job that finds global counterfactuals."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.requests import Preset, RequestDocument

MAX_COUNT = 32  # counterfactuals
MAX_THETA = 0.2  # farther graphs are not aligned


class GlobalRequest(RequestDocument):
    kind: Literal["global"] = "global"
    source_class: int  # graphs that the GNN gives this class are covered
    target_class: int | None = None  # None: any other class
    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 10  # k
    theta: Annotated[float, Field(gt=0, le=MAX_THETA)] = 0.1
    preset: Preset = "balanced"
    time_budget: Annotated[float, Field(gt=0, le=3600)] | None = None
    seed: int = 0
