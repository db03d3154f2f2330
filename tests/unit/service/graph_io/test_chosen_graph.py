"""Alternatives of an answer: believable counterfactuals first, then minimal ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.graph_io.chosen_graph import chosen_graph
from service.http.faults import InvalidRequestError
from tests.conftest import Deployment


def result(believable: int, minimal: int) -> bytes:
    document: dict[str, Any] = json.loads(Deployment.result().model_dump_json())
    answer = document["answers"][0]
    best = answer["counterfactuals"][0]
    answer["counterfactuals"] = [{**best, "verdict": "meaningful"}] * believable
    answer["minimal"] = [
        {**best, "edits": [{**best["edits"][0], "source": "c", "target": "tail"}]}
    ] * minimal
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("believable", "minimal", "alternative", "title"),
    [
        (2, 1, 0, "Meaningful counterfactual"),
        (2, 1, 1, "Meaningful counterfactual"),
        (2, 1, 2, "Minimal counterfactual"),
        (0, 2, 1, "No believable counterfactual; this is minimal"),
    ],
)
def test_minimal_answers_follow_believable_ones(
    believable: int, minimal: int, alternative: int, title: str
) -> None:
    found = chosen_graph(result(believable, minimal), 0, alternative)
    assert found.title == title
    assert found.subtitle.endswith(f"alternative {alternative + 1} of {believable + minimal}")
    assert (found.edits[0].source == "c") == (alternative >= believable)


def test_an_alternative_beyond_both_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="is 3, but the result has 3 counterfactuals"):
        chosen_graph(result(2, 1), 0, 3)
