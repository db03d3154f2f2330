"""Databases of earlier versions are migrated with their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Enum,
    Float,
    Integer,
    String,
    inspect,
    text,
    update,
)
from sqlalchemy.types import TypeEngine

import store.database.migrations
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import datasets, explanations, gnn_labels, gnns
from store.database import job_totals, schema
from store.database.sessions import Database, now
from store.database.tables import Lead, Table, Worker
from store.errors import Conflict, SchemaMismatch
from store.jobs import workers
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
            reference: gnns.find(session, reference, tenant=DEFAULT_TENANT).id
            for reference in ("motifs@1", "motifs@2", "motifs", "others@1")
        }
        assert found == {
            **{"motifs@1": "gnn_a", "motifs@2": "gnn_b"},
            **{"motifs": "gnn_b", "others@1": "gnn_c"},
        }
        assert [
            datasets.find(session, reference, tenant=DEFAULT_TENANT).id
            for reference in ("s@1", "s@2", "s")
        ] == [
            "set_1",
            "set_0",
            "set_0",
        ]
        old = gnns.get(session, "gnn_a", tenant=DEFAULT_TENANT)
        assert (old.tags, old.description, old.report) == ({}, None, None)
        assert gnns.content_hash(parse_spec(old.spec), "2" * 64) == (
            gnns.content_hash(SPEC, "2" * 64)
        )
        assert job_totals.read(session) == {
            (JobKind.PROBE, JobState.SUCCEEDED): 1,
            (JobKind.CLASS, JobState.SUCCEEDED): 1,
        }
        assert jobs.get(session, "job_2", tenant=DEFAULT_TENANT).kind is JobKind.CLASS
        assert explanations.get(session, "exp_1", tenant=DEFAULT_TENANT).denoiser_id == "den_1"
        insert(
            session.connection(),
            "explanations",
            {**EXPLANATION, "id": "exp_2", "denoiser_id": None},
        )
        assert explanations.get(session, "exp_2", tenant=DEFAULT_TENANT).denoiser_id is None
        assert explanations.get(session, "exp_2", tenant=DEFAULT_TENANT).witness_set_id is None
        assert jobs.get(session, "job_2", tenant=DEFAULT_TENANT).also_waiting_for is None
        new, _ = gnns.create(
            session, name="motifs", spec=SPEC, weights_digest="3" * 64, tenant=DEFAULT_TENANT
        )
        assert new.version == 3
        gnn_labels.set_alias(session, "production", old)
        gnns.delete(session, "gnn_b", tenant=DEFAULT_TENANT)
    with first_schema.reading() as session:
        assert gnns.find(session, "motifs@production", tenant=DEFAULT_TENANT).id == "gnn_a"
        assert (
            gnns.find(session, "motifs", tenant=DEFAULT_TENANT).id == "gnn_a"
        )  # version 3 is not probed yet


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
        row = explanations.get(session, "exp_old", tenant=DEFAULT_TENANT)
        job = jobs.get(session, "job_old", tenant=DEFAULT_TENANT)
        assert (row.provisional_job_id, row.provisional_digest) == (None, None)
        assert (job.waiting_for_provisional, job.estimated_seconds) == (None, None)
        assert explanations.state_of(row, job, None) is JobState.SUCCEEDED
        gnn, dataset = create_ready_gnn(session), create_dataset(session)
        new, final = create_explanation(session, gnn, dataset, provisional=True)
        claim = claim_job(session, str(new.provisional_job_id))
        explanations.finish_provisional(session, claim, result_digest="9" * 64, summary={})
        jobs.succeed(session, claim)
        again = jobs.get(session, final.id, tenant=DEFAULT_TENANT)
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
        assert explanations.get(session, "exp_old", tenant=DEFAULT_TENANT).result_digest == "8" * 64
        assert explanations.get(session, new.id, tenant=DEFAULT_TENANT).provisional_digest is None


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database of the newest version with one row in every table."""
    url = f"sqlite:///{tmp_path / 'full.sqlite'}"
    if request.param == "PostgreSQL":
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    database.migrate()
    with database.engine.begin() as connection:
        for table in reversed(Table.metadata.sorted_tables):  # tests before may have left rows
            connection.execute(table.delete())
        for table in Table.metadata.sorted_tables:
            connection.execute(table.insert(), {c.name: sample(c) for c in table.columns})
    yield database
    database.close()


SAMPLES: list[tuple[type[TypeEngine[Any]], object]] = [
    (JSON, {"some": "json"}),
    (Boolean, True),
    (Integer, 7),
    (Float, 2.5),
]


def sample(column: Column[Any]) -> object:
    """A value of the column's type; a reference names the only row of its table."""
    for reference in column.foreign_keys:
        is_own = reference.column.table is column.table
        return None if is_own else sample(reference.column)
    if column.name in ("lease_until", "seen_at"):
        return 0.0  # no process runs
    if isinstance(column.type, Enum):
        return column.type.python_type(column.type.enums[0])
    if isinstance(column.type, String):
        return f"{column.table.name}.{column.name}"[: column.type.length]
    return next(value for kind, value in SAMPLES if isinstance(column.type, kind))


def contents(database: Database, columns: Mapping[str, list[str]]) -> dict[str, object]:
    with database.engine.connect() as connection:
        return {
            table: connection.execute(text(f"SELECT {', '.join(named)} FROM {table}")).all()
            for table, named in columns.items()
        }


def columns_of(database: Database) -> dict[str, list[str]]:
    with database.engine.connect() as connection:
        inspector = inspect(connection)
        names = inspector.get_table_names()
        return {name: sorted(c["name"] for c in inspector.get_columns(name)) for name in names}


def test_a_full_database_goes_down_to_the_first_schema_and_up_again(full: Database) -> None:
    newest = columns_of(full)
    before = contents(full, newest)
    assert all(rows for rows in before.values())
    with pytest.raises(Conflict, match=r"no place for .*column jobs.format \(1 rows\)") as refused:
        full.migrate("0001")
    assert "table witness_sets (1 rows)" in str(refused.value)
    assert contents(full, newest) == before

    lost = {str(loss) for loss in full.migrate("0001", discard=True)}
    first = columns_of(full)
    assert {f"table {name} (1 rows)" for name in set(newest) - set(first)} <= lost
    kept = {table: named for table, named in first.items() if table != "alembic_version"}
    older = contents(full, kept)
    assert all(rows for rows in older.values())

    assert full.migrate() == []
    with full.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    assert contents(full, kept) == older
    full.migrate("0005", discard=True)
    with pytest.raises(SchemaMismatch, match="this program needs"):
        full.require_schema()
    full.migrate()
    full.require_schema()


def test_a_downgrade_waits_until_all_processes_have_stopped(full: Database) -> None:
    with full.transaction() as session:
        workers.beat(session, name="busy-worker", queues=["light"], device="cpu", pid=1)
    with pytest.raises(Conflict, match="worker busy-worker; stop all APIs"):
        full.migrate("0011", discard=True)
    with full.transaction() as session:
        workers.leave(session, "busy-worker")
        session.add(Lead(name="dispatcher", owner="api:1", lease_until=0.0))
        session.flush()
        session.execute(update(Lead).values(lease_until=now() + 10))
    with pytest.raises(Conflict, match="API api:1; stop all APIs"):
        full.migrate("0011", discard=True)
    with full.transaction() as session:
        session.execute(update(Lead).values(lease_until=0.0))
        session.execute(update(Worker).values(seen_at=now() - 31))
    full.migrate("0011", discard=True)
    full.migrate()


def test_the_printed_sql_makes_the_same_schema(postgres_url: str) -> None:
    database = Database(postgres_url)
    database.migrate()
    for direction in ("0001", schema.newest()):
        printed = schema.statements(database.engine, direction)
        with database.engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql(printed)
            assert schema.version(connection) == direction
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    database.close()


def test_an_unknown_schema_is_refused_with_the_known_ones(full: Database) -> None:
    with pytest.raises(SchemaMismatch, match=r"there is no schema '0999'; .*0001, 0002"):
        full.migrate("0999")
    if full.is_sqlite:
        with pytest.raises(Conflict, match="--sql needs PostgreSQL"):
            schema.statements(full.engine)
