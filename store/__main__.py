"""`python -m store COMMAND`: maintains the database and the artifacts."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.scopes import DEFAULT_TENANT
from store.access import key_commands
from store.database import quotas, schema
from store.database.audit_entries import Action, acting
from store.database.sessions import Database
from store.database.tables.audit import Source
from store.errors import (
    ArtifactsUnavailable,
    Conflict,
    NotFound,
    SchemaMismatch,
    SettingsError,
)
from store.maintenance import consistency
from store.maintenance.backup import back_up
from store.retention import purges
from store.settings import Settings
from store.store import Store


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        print(f"store: {error}", file=sys.stderr)
        return 2
    try:
        code: int = options.run(settings, options)
    except SchemaMismatch as error:
        print(f"store: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (ArtifactsUnavailable, Conflict, InvalidInput, NotFound) as error:
        print(f"store: {error}", file=sys.stderr)
        return 1
    except (SQLAlchemyError, OSError) as error:
        reason = str(error).splitlines()[0]
        print(f"store: the database cannot be opened: {reason}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m store", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    migrate = commands.add_parser(
        "migrate",
        help="migrate the database to this version; run it once before you start new APIs and "
        "workers",
    )
    migrate.add_argument("--to", metavar="SCHEMA", help="an earlier schema, for example 0009")
    migrate.add_argument(
        "--sql", action="store_true", help="print the SQL for PostgreSQL and change nothing"
    )
    migrate.add_argument(
        "--discard", action="store_true", help="remove what an earlier schema cannot hold"
    )
    migrate.set_defaults(run=_migrate)
    key_commands.add_parser(commands).set_defaults(run=_keys)
    check = commands.add_parser(
        "check", help="check that the artifact of every row is there, for example after a restore"
    )
    check.add_argument(
        "--read", action="store_true", help="read all artifacts and compare them with their digests"
    )
    check.set_defaults(run=_check)
    backup = commands.add_parser("backup", help="copy the SQLite database while it is in use")
    backup.add_argument("file", type=Path, help="a new file")
    backup.set_defaults(run=_back_up)
    purge = commands.add_parser(
        "purge", help="delete the files of deleted resources now, and verify that they are gone"
    )
    purge.set_defaults(run=_purge)
    quota = commands.add_parser(
        "quotas", help="show or set the quotas of a tenant; -1 returns to those of the deployment"
    )
    quota.add_argument("tenant")
    for name, kind in (("jobs", int), ("stored-bytes", int)):
        quota.add_argument(f"--{name}", type=kind, metavar="N", help="0 for no limit")
    for name in ("work-seconds", "requests-per-second"):
        quota.add_argument(f"--{name}", type=float, metavar="N", help="0 for no limit")
    quota.set_defaults(run=_quotas)
    return parser


def _quotas(settings: Settings, options: argparse.Namespace) -> int:
    names = ("jobs", "work_seconds", "stored_bytes", "requests_per_second")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    changes = {name: None if value == -1 else value for name, value in given.items()}
    with Store.open(settings, migrate=False) as store:
        store.database.require_schema()
        with store.database.transaction() as session:
            found = quotas.set_for_tenant(session, options.tenant, changes)
            used = quotas.usage_of(session, options.tenant)
    for name, limit in asdict(found).items():
        of_limit = f"of {limit:,.10g}" if limit else "without a limit"
        now = getattr(used, name, None)
        print(f"store: {name} {of_limit}" + ("" if now is None else f", {now:,.10g} used"))
    return 0


def _purge(settings: Settings, _: argparse.Namespace) -> int:
    with Store.open(settings, migrate=False) as store:
        store.database.require_schema()
        report = purges.purge(store.database, store.artifacts)
    for resource in report.resources:
        print(f"store: {resource}")
    deleted = report.deleted
    left = sum(not resource.is_purged for resource in report.resources)
    print(
        f"store: deleted {deleted.count} files ({deleted.size:,} bytes); verified "
        f"{len(report.resources) - left} deleted resources, {left} have files left"
    )
    return 1 if left else 0


def _check(settings: Settings, options: argparse.Namespace) -> int:
    with Store.open(settings, migrate=False) as store:
        found = consistency.check(store.database, store.artifacts, read=options.read)
    for fault in found.faults:
        state = "missing" if fault in found.missing else "corrupt"
        print(f"store: the {fault.what} of {fault.row} is {state}: artifact {fault.digest}")
    checkpoints = len(found.missing) + len(found.corrupt) - len(found.faults)
    if checkpoints:
        print(f"store: {checkpoints} checkpoints are missing; their trainings start again")
    print(
        f"store: {found.rows} references to {found.artifacts} artifacts, {found.unused} unused; "
        f"{len(found.faults)} faults"
    )
    return 1 if found.faults else 0


def _back_up(settings: Settings, options: argparse.Namespace) -> int:
    database = Database(settings.database_url)
    try:
        size = back_up(database, options.file)
    finally:
        database.close()
    print(f"store: wrote {options.file} ({size} bytes); now copy the artifacts")
    return 0


def _migrate(settings: Settings, options: argparse.Namespace) -> int:
    database = Database(settings.database_url)
    try:
        if options.sql:
            print(schema.statements(database.engine, options.to), end="")
            return 0
        for loss in database.migrate(options.to, discard=options.discard):
            print(f"store: removed {loss}")
        print(f"store: the database has schema {options.to or schema.newest()}")
    finally:
        database.close()
    return 0


def _keys(settings: Settings, options: argparse.Namespace) -> int:
    database = Database(settings.database_url)
    try:
        database.require_schema()
        command = Action(
            f"keys {options.action}",
            options.tenant or DEFAULT_TENANT,
            getattr(options, "key", None),
            source=Source.COMMAND,
        )
        with acting(lambda: command):
            key_commands.run(database, options)
    finally:
        database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
