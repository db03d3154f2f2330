"""Mistakes that people make: the answer names what was sent and what is allowed.

`docs/mistakes.md` lists the answers. `D4_WRITE_MISTAKES=1 pytest tests/unit/mistakes` writes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import gnns
from tests.unit.mistakes.local_mistakes import LOCAL, LocalMistake
from tests.unit.mistakes.requests import (
    MISTAKES,
    RING,
    SPECS,
    Mistake,
    edges,
    ring,
    weights_of,
)

PAGE = Path(__file__).parents[3] / "docs" / "mistakes.md"
ROWS = [mistake for mistakes in MISTAKES.values() for mistake in mistakes]
HEAD = """# Mistakes and their answers

What the API, the client and `export` answer to mistakes. `tests/unit/mistakes` sends each of them
and writes this page.
"""


@pytest.fixture(scope="module")
def deployment(shared_api: Any) -> Any:
    """An API with the GNNs of `SPECS` and three reference sets."""
    for name, document in SPECS.items():
        digest = shared_api.store.artifacts.of("default").put(weights_of(name))
        with shared_api.store.database.transaction() as session:
            _gnn, job = gnns.create(
                session,
                name=name,
                spec=parse_spec(document),
                weights_digest=digest,
                tenant=DEFAULT_TENANT,
            )
            claim = jobs.claim(session, job.id, "test", 60)
            assert claim is not None
            check = ProbeCheck(name="shapes", passed=True, detail="")
            gnns.finish(session, claim, ProbeReport(passed=True, checks=[check]))
            jobs.succeed(session, claim)
    ones = {"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}]}
    negative = ring(edges=edges((0, 1), edge_attr=[-1.0]))
    for name, graph in (("rings", RING), ("ones", ones), ("negative", negative)):
        body = {"name": name, "graphs": [graph]}
        assert shared_api.client.post("/v1/datasets", json=body).status_code == 201
    return shared_api


@pytest.fixture(scope="module")
def answers(deployment: Any) -> dict[str, Any]:
    """The responses by what was sent."""
    return {row.sent: _send(deployment.client, row) for row in ROWS}


def _send(client: Any, row: Mistake) -> Any:
    if row.before is not None:
        row.before(client)
    options = dict(row.options) if row.json is None else {**row.options, "json": row.json}
    headers = {"Prefer": "respond-async", **options.pop("headers", {})}
    return client.request(row.method, row.path, headers=headers, **options)


def test_there_are_thirty_of_them() -> None:
    assert len({row.sent for row in ROWS}) == len(ROWS) >= 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.sent)
def test_a_mistake_gets_a_clear_answer(answers: dict[str, Any], row: Mistake) -> None:
    answer = answers[row.sent]
    assert answer.status_code == row.status, answer.text
    problem = answer.json()
    assert problem["type"] == f"urn:d4explain:problem:{row.problem}"
    for words in row.says:
        assert words in problem["detail"], problem["detail"]


@pytest.mark.parametrize("row", LOCAL, ids=lambda row: row.sent)
def test_a_mistake_in_python_gets_a_clear_answer(row: LocalMistake) -> None:
    text = row.answer()
    for words in row.says:
        assert words in text, text


def test_the_page_lists_the_answers(answers: dict[str, Any]) -> None:
    page = HEAD
    for section, rows in MISTAKES.items():
        page += f"\n## {section}\n\n| sent | status | answer |\n|---|---|---|\n"
        for row in rows:
            detail = answers[row.sent].json()["detail"]
            page += f"| {row.sent} | {row.status} | {_cell(detail)} |\n"
    page += "\n## Python: client and export\n\n| sent | answer |\n|---|---|\n"
    for local in LOCAL:
        page += f"| {local.sent} | {_cell(local.answer())} |\n"
    if os.environ.get("D4_WRITE_MISTAKES"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "the answers changed; see the docstring of this module"


def _cell(text: str) -> str:
    """Without ids and places that differ between runs."""
    text = re.sub(r"\b(gnn|set|job|exp)_[0-9a-z]{10,}", r"\1_…", text)
    text = re.sub(r"\S*local_mistakes.py:\d+", "model.py:9", text)
    return text.replace("|", "\\|").replace("\n", " ")
