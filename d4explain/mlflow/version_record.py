"""The tags that say how far the work on one version is; they are its only memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

PREFIX = "d4explain."
MAX_TAG = 4000  # characters; longer texts are cut, registries have different limits


class VersionState(StrEnum):
    RUNNING = "running"
    EXPLAINED = "explained"
    FAILED = "failed"


DONE = frozenset({VersionState.EXPLAINED, VersionState.FAILED})


class Tag(StrEnum):
    STATE = f"{PREFIX}state"
    ATTEMPT = f"{PREFIX}attempt"
    GNN = f"{PREFIX}gnn"  # id
    GNN_VERSION = f"{PREFIX}gnn_version"  # name@version
    ALIASES = f"{PREFIX}aliases"  # those that the GNN has from this version
    DATASET_ID = f"{PREFIX}dataset_id"
    EXPLANATIONS = f"{PREFIX}explanations"  # {"counterfactual": "exp_…", "class 0": "exp_…"}
    SUBJECTS = f"{PREFIX}subjects"  # what the counterfactuals are of
    VERDICT = f"{PREFIX}verdict"
    VERDICTS = f"{PREFIX}verdicts"
    URL = f"{PREFIX}url"
    GNN_URL = f"{PREFIX}gnn_url"
    REPORTS = f"{PREFIX}reports"  # folder of the run's artifacts
    NOTE = f"{PREFIX}note"
    ERROR = f"{PREFIX}error"


# Of an attempt: removed when another one begins.
RESULTS = (
    Tag.DATASET_ID, Tag.EXPLANATIONS, Tag.SUBJECTS, Tag.VERDICT, Tag.VERDICTS, Tag.URL, Tag.REPORTS,
    Tag.NOTE, Tag.ERROR,
)  # fmt: skip


@dataclass(frozen=True)
class VersionRecord:
    state: VersionState | None = None
    attempt: int = 0
    gnn: str | None = None
    aliases: frozenset[str] = frozenset()
    dataset: str | None = None
    explanations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> VersionRecord:
        """People can change tags: what cannot be read counts as absent."""
        state = tags.get(Tag.STATE)
        attempt = tags.get(Tag.ATTEMPT, "")
        return cls(
            state=VersionState(state) if state in set(VersionState) else None,
            attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else 0,
            gnn=tags.get(Tag.GNN) or None,
            aliases=frozenset(filter(None, tags.get(Tag.ALIASES, "").split(","))),
            dataset=tags.get(Tag.DATASET_ID) or None,
            explanations=_texts(tags.get(Tag.EXPLANATIONS, "{}")),
        )


def _texts(text: str) -> dict[str, str]:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return {}
    is_dict = isinstance(value, dict)
    return {key: item for key, item in value.items() if isinstance(item, str)} if is_dict else {}


def shortened(text: str) -> str:
    return text if len(text) <= MAX_TAG else f"{text[: MAX_TAG - 1]}…"
