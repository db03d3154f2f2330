"""Databases of earlier versions are migrated with their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

import store.database.migrations
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import JobKind, JobState
from store import jobs
from store.catalogue import datasets, explanations, gnn_labels, gnns
from store.database import job_totals
from store.database.sessions import Database
from store.database.tables import Table
from tests.store_rows import claim_job, create_dataset, create_explanation, create_ready_gnn

SPEC = parse_spec(
    {
        "features": 1,
        "classes": 2,
        "layers": [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
    }
)
JOB = {
    **{"id": "job_1", "tenant_id": "default", "kind": "probe", "queue": "light"},
    **{"state": "succeeded", "attempt": 1, "releases": 0, "max_attempts": 3, "priority": 5},
    **{"cancel_requested": False, "seed": 0, "created_at": 1.0, "next_dispatch_at": 1.0},
    "dispatches": 1,
}
GNN = {
    **{"tenant_id": "default", "sha256": "1" * 64, "weights_digest": "2" * 64},
    **{"spec": SPEC.model_dump_json(include={"features", "classes", "layers"})},
    **{"state": "ready", "job_id": "job_1"},
}
DATASET = {
    **{"id": "set_1", "tenant_id": "default", "name": "s", "sha256": "4" * 64},
    **{"graphs_digest": "5" * 64, "graph_count": 1, "features": 1, "label_counts": "{}"},
    **{"max_nodes": 1, "mean_nodes": 1.0, "mean_edges": 0.0, "created_at": 1.0},
}
EXPLANATION = {
    **{"id": "exp_1", "tenant_id": "default", "kind": "class", "gnn_id": "gnn_b"},
    **{"dataset_id": "set_1", "denoiser_id": "den_1", "job_id": "job_2"},
    **{"request_digest": "7" * 64, "created_at": 1.0},
}
DENOISER = {
    **{"id": "den_1", "tenant_id": "default", "key": "6" * 64, "gnn_id": "gnn_b"},
    **{"dataset_id": "set_1", "objective": "class", "config": "{}", "state": "ready"},
    **{"job_id": "job_1", "created_at": 1.0},
}


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def first_schema(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with the tables of the first version."""
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    if request.param == "PostgreSQL":
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    migrate(database, command.upgrade, "0001")
    yield database
    database.close()


def migrate(database: Database, direction: Callable[[Config, str], None], version: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(store.database.migrations.__file__).parent))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        direction(config, version)


def insert(connection: Connection, table: str, row: Mapping[str, object]) -> None:
    places = ", ".join(f":{name}" for name in row)
    connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"), dict(row))


def test_gnns_of_the_first_schema_become_versions_of_their_names(first_schema: Database) -> None:
    named = [("gnn_b", "motifs", 2.0), ("gnn_a", "motifs", 1.0), ("gnn_c", "others", 3.0)]
    with first_schema.engine.begin() as connection:
        insert(connection, "jobs", JOB)
        insert(connection, "jobs", {**JOB, "id": "job_2", "kind": "class_explanation"})
        for id_, name, created_at in named:
            insert(connection, "gnns", {**GNN, "id": id_, "name": name, "created_at": created_at})
        insert(connection, "datasets", DATASET)
        insert(connection, "datasets", {**DATASET, "id": "set_0", "created_at": 2.0})
        insert(connection, "denoisers", DENOISER)
        insert(connection, "explanations", EXPLANATION)

    first_schema.migrate()

    with first_schema.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    with first_schema.transaction() as session:
        found = {
            reference: gnns.find(session, reference).id
            for reference in ("motifs@1", "motifs@2", "motifs", "others@1")
        }
        assert found == {
            **{"motifs@1": "gnn_a", "motifs@2": "gnn_b"},
            **{"motifs": "gnn_b", "others@1": "gnn_c"},
        }
        assert [datasets.find(session, reference).id for reference in ("s@1", "s@2", "s")] == [
            "set_1",
            "set_0",
            "set_0",
        ]
        old = gnns.get(session, "gnn_a")
        assert (old.tags, old.description, old.report) == ({}, None, None)
        assert gnns.content_hash(parse_spec(old.spec), "2" * 64) == (
            gnns.content_hash(SPEC, "2" * 64)
        )
        assert job_totals.read(session) == {
            (JobKind.PROBE, JobState.SUCCEEDED): 1,
            (JobKind.CLASS, JobState.SUCCEEDED): 1,
        }
        assert jobs.get(session, "job_2").kind is JobKind.CLASS
        assert explanations.get(session, "exp_1").denoiser_id == "den_1"
        insert(
            session.connection(),
            "explanations",
            {**EXPLANATION, "id": "exp_2", "denoiser_id": None},
        )
        assert explanations.get(session, "exp_2").denoiser_id is None
        assert explanations.get(session, "exp_2").witness_set_id is None
        assert jobs.get(session, "job_2").also_waiting_for is None
        new, _ = gnns.create(session, name="motifs", spec=SPEC, weights_digest="3" * 64)
        assert new.version == 3
        gnn_labels.set_alias(session, "production", old)
        gnns.delete(session, "gnn_b")
    with first_schema.reading() as session:
        assert gnns.find(session, "motifs@production").id == "gnn_a"
        assert gnns.find(session, "motifs").id == "gnn_a"  # version 3 is not probed yet


def test_provisional_answers_are_added_and_removed_in_place(first_schema: Database) -> None:
    """An explanation of an earlier version has none; going back keeps its final answer."""
    first_schema.migrate()
    migrate(first_schema, command.downgrade, "0008")
    with first_schema.engine.begin() as connection:
        insert(connection, "jobs", {**JOB, "id": "job_old", "kind": "counterfactual"})
        old = {**EXPLANATION, "id": "exp_old", "job_id": "job_old", "result_digest": "8" * 64}
        insert(connection, "explanations", {**old, "kind": "counterfactual"})

    first_schema.migrate()
    with first_schema.transaction() as session:
        row = explanations.get(session, "exp_old")
        job = jobs.get(session, "job_old")
        assert (row.provisional_job_id, row.provisional_digest) == (None, None)
        assert (job.waiting_for_provisional, job.estimated_seconds) == (None, None)
        assert explanations.state_of(row, job, None) is JobState.SUCCEEDED
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        new, final = create_explanation(session, gnn, dataset, provisional=True)
        claim = claim_job(session, str(new.provisional_job_id))
        explanations.finish_provisional(session, claim, result_digest="9" * 64, summary={})
        jobs.succeed(session, claim)
        again = jobs.get(session, final.id)
        assert (again.waiting_for_provisional, again.is_blocked) == (None, True)

    migrate(first_schema, command.downgrade, "0008")
    with first_schema.engine.connect() as connection:
        kinds = set(connection.execute(text("SELECT kind FROM jobs")).scalars())
        counted = set(connection.execute(text("SELECT kind FROM job_totals")).scalars())
        told = set(connection.execute(text("SELECT type FROM job_events")).scalars())
        waiting = connection.execute(
            text("SELECT waiting_for FROM jobs WHERE id = :id"), {"id": final.id}
        ).scalar_one()
        assert waiting == final.waiting_for
    assert "provisional" not in kinds | counted
    assert "answer" not in told
    first_schema.migrate()
    with first_schema.reading() as session:
        assert explanations.get(session, "exp_old").result_digest == "8" * 64
        assert explanations.get(session, new.id).provisional_digest is None
