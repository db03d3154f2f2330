"""`python -m store COMMAND`: maintains the database and the artifacts."""

from __future__ import annotations

import argparse
import sys

from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import InvalidInput
from store.access import key_commands
from store.database import schema
from store.database.sessions import Database
from store.errors import Conflict, NotFound, SchemaMismatch, SettingsError
from store.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        print(f"store: {error}", file=sys.stderr)
        return 2
    try:
        options.run(settings, options)
    except SchemaMismatch as error:
        print(f"store: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (Conflict, InvalidInput, NotFound) as error:
        print(f"store: {error}", file=sys.stderr)
        return 1
    except (SQLAlchemyError, OSError) as error:
        reason = str(error).splitlines()[0]
        print(f"store: the database cannot be opened: {reason}", file=sys.stderr)
        return 1
    return 0


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
    return parser


def _migrate(settings: Settings, options: argparse.Namespace) -> None:
    database = Database(settings.database_url)
    try:
        if options.sql:
            print(schema.statements(database.engine, options.to), end="")
            return
        for loss in database.migrate(options.to, discard=options.discard):
            print(f"store: removed {loss}")
        print(f"store: the database has schema {options.to or schema.newest()}")
    finally:
        database.close()


def _keys(settings: Settings, options: argparse.Namespace) -> None:
    database = Database(settings.database_url)
    try:
        database.require_schema()
        key_commands.run(database, options)
    finally:
        database.close()


if __name__ == "__main__":
    sys.exit(main())
