"""`python -m store migrate`: migrates the database to the schema of this program."""

from __future__ import annotations

import argparse
import sys

from sqlalchemy.exc import SQLAlchemyError

from store.database import schema
from store.database.sessions import Database
from store.errors import SchemaMismatch, SettingsError
from store.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m store", description="Maintains the store.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(
        "migrate",
        help="migrate the database to this version; run it once before you start new APIs and "
        "workers",
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
