"""Write the rows and artifacts of submissions in a plain loop, as an upper bound for the API.

Each iteration writes one submission: the request as an artifact (file and folder synced), then its
job, the job's first event and the explanation in one transaction of SQLite's own driver. The schema
has the same indexes and foreign keys, in WAL mode with `synchronous=FULL`. There is no HTTP, no
validation, no query and no second thread.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.artifacts.artifact_store import ArtifactStore
from store.settings import Settings
from store.store import Store

_FULL = 2  # the value of PRAGMA synchronous
_TABLES = {  # table: column with the job id
    "jobs": "id",
    "job_events": "job_id",
    "explanations": "job_id",
}


@dataclass(frozen=True)
class Commit:
    """The request and rows of one submission."""

    request: bytes
    rows: Mapping[str, Mapping[str, Any]]  # by table


def read_commits(settings: Settings, explanation_ids: Sequence[str]) -> list[Commit]:
    """Read back the rows and requests of submissions; each must exist exactly once."""
    artifacts = ArtifactStore(settings.artifacts)
    commits = []
    connection = _connect(settings)
    try:
        connection.row_factory = sqlite3.Row
        for id_ in explanation_ids:
            (explanation,) = connection.execute(
                "SELECT job_id, request_digest FROM explanations WHERE id = ?", [id_]
            ).fetchall()
            rows = {}
            for table, column in _TABLES.items():
                query = f"SELECT * FROM {table} WHERE {column} = ? ORDER BY 1 LIMIT 1"
                rows[table] = dict(connection.execute(query, [explanation["job_id"]]).fetchone())
            commits.append(
                Commit(artifacts.of(DEFAULT_TENANT).get(explanation["request_digest"]), rows)
            )
    finally:
        connection.close()
    return commits


@dataclass(frozen=True)
class Loop:
    """What a plain loop wrote, and its cost."""

    count: int
    seconds: float
    cpu_seconds: float


def write_commits(commits: Sequence[Commit], folder: Path, seconds: float) -> Loop:
    """Write the commits until the time limit."""
    settings = Settings(data_dir=folder)
    Store.open(settings).close()  # creates the schema
    artifacts = ArtifactStore(settings.artifacts)
    connection = _connect(settings)
    try:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        if connection.execute("PRAGMA synchronous").fetchone() != (_FULL,):
            raise RuntimeError("SQLite ignored synchronous=FULL.")
        statements = {table: _insert(table, row) for table, row in commits[0].rows.items()}
        started, cpu_started = time.perf_counter(), time.process_time()
        count = 0
        for commit in commits:
            artifacts.of(DEFAULT_TENANT).put(commit.request)
            connection.execute("BEGIN IMMEDIATE")
            for table, row in commit.rows.items():
                connection.execute(statements[table], row)
            connection.execute("COMMIT")
            count += 1
            if time.perf_counter() - started > seconds:
                break
        return Loop(count, time.perf_counter() - started, time.process_time() - cpu_started)
    finally:
        connection.close()


def _insert(table: str, row: Mapping[str, Any]) -> str:
    columns = ", ".join(row)
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in row)})"


def _connect(settings: Settings) -> sqlite3.Connection:
    connection = sqlite3.connect(settings.database_url.removeprefix("sqlite:///"), timeout=30)
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise RuntimeError(f'SQLite uses journal mode {json.dumps(mode)}; expected "wal".')
    return connection
