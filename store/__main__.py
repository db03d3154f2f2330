"""`python -m store migrate`: brings the database to the version of this program."""

from __future__ import annotations

import argparse
import sys

from sqlalchemy.exc import SQLAlchemyError

from store.database import schema
from store.database.sessions import Database
from store.errors import SchemaMismatch, SettingsError
from store.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m store", description="Looks after the store.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(
        "migrate",
        help="bring the database's tables to this version; run it once before new APIs and "
        "workers are started",
    )
    parser.parse_args(arguments)
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        print(f"store: {error}", file=sys.stderr)
        return 2
    try:
        database = Database(settings.database_url)
        try:
            database.migrate()
        finally:
            database.close()
    except SchemaMismatch as error:
        print(f"store: {error}", file=sys.stderr)
        return schema.EXIT_CODE
    except (SQLAlchemyError, OSError) as error:
        reason = str(error).splitlines()[0]
        print(f"store: the database cannot be opened: {reason}", file=sys.stderr)
        return 1
    print(f"store: the database has schema {schema.newest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
