"""`python -m store keys`: what the operator does with keys, on the database itself.

It makes the first key, and the first key of every tenant; the API makes further ones.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime

from d4explain.contracts.errors import InvalidInput, quoted
from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from store.access import api_keys
from store.database.sessions import Database
from store.database.tables.access import ApiKey

ENVIRONMENT_VARIABLE = "D4_API_KEY"
SECONDS_PER_DAY = 86_400.0


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    keys = commands.add_parser("keys", help="make, list and revoke the keys of all tenants")
    actions = keys.add_subparsers(required=True, metavar="ACTION", dest="action")
    create = actions.add_parser("create", help="make a key and print it; it is shown only once")
    create.add_argument("--tenant", default=DEFAULT_TENANT, help="default: %(default)s")
    create.add_argument("--name", required=True, help="what the key is for")
    create.add_argument(
        "--scopes",
        type=_scopes,
        default=list(Scope),
        metavar="SCOPES",
        help=f"comma-separated, of {', '.join(Scope)}; default: all",
    )
    create.add_argument("--days", type=_days, help="days until it expires; default: never")
    ensure = actions.add_parser(
        "ensure",
        help=f"make the key in {ENVIRONMENT_VARIABLE} valid, with all scopes, unless it is known",
    )
    ensure.add_argument("--tenant", default=DEFAULT_TENANT, help="default: %(default)s")
    listing = actions.add_parser("list", help="list keys without their texts")
    listing.add_argument("--tenant", help="only the keys of this tenant")
    revoke = actions.add_parser("revoke", help="end a key now")
    revoke.add_argument("key", metavar="KEY", help="its id, key_…")
    revoke.add_argument("--tenant", default=DEFAULT_TENANT, help="default: %(default)s")
    return keys


def run(database: Database, options: argparse.Namespace) -> None:
    match options.action:
        case "create":
            _create(database, options)
        case "ensure":
            _ensure(database, options.tenant)
        case "list":
            with database.reading() as session:
                for row in api_keys.all_keys(session, options.tenant):
                    print(_line(row))
        case "revoke":
            with database.transaction() as session:
                print(_line(api_keys.revoke(session, options.key, options.tenant)))


def _create(database: Database, options: argparse.Namespace) -> None:
    with database.transaction() as session:
        new = api_keys.create(
            session,
            tenant=options.tenant,
            name=options.name,
            scopes=options.scopes,
            seconds=None if options.days is None else options.days * SECONDS_PER_DAY,
        )
    print(f"store: made {_line(new.row)}; keep the key, it is not stored:", file=sys.stderr)
    print(new.text)  # alone on standard output, for scripts


def _ensure(database: Database, tenant: str) -> None:
    text = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if not text:
        raise InvalidInput(f"{ENVIRONMENT_VARIABLE} is not set")
    with database.transaction() as session:
        row = api_keys.ensure(session, text, tenant=tenant, name=ENVIRONMENT_VARIABLE)
    print(f"store: {_line(row)}")


def _line(row: ApiKey) -> str:
    ends = "" if row.expires_at is None else f" expires {_day(row.expires_at)}"
    ended = "" if row.revoked_at is None else f" revoked {_day(row.revoked_at)}"
    scopes = ",".join(row.scopes)
    return f"{row.id} {row.prefix} tenant={row.tenant_id} scopes={scopes} {row.name!r}{ends}{ended}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def _scopes(text: str) -> list[Scope]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Scope)]
    if unknown:
        allowed = ", ".join(Scope)
        raise argparse.ArgumentTypeError(f"{quoted(unknown[0])} is not a scope; use {allowed}")
    return [Scope(name) for name in names]


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days < float("inf"):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a positive number of days")
    return days
