from __future__ import annotations

from d4explain.cli.options import Json, Url
from d4explain.cli.output.resource_tables import print_fields
from d4explain.cli.output.terminal import print_json
from d4explain.client.client import Client


def quotas(as_json: Json = False, url: Url = None) -> None:
    """Show what the tenant may use, and what it uses."""
    with Client(url) as client:
        found = client.quotas()
    if as_json:
        print_json(found)
        return
    counted = {
        "jobs": found.jobs,
        "seconds of work": found.work_seconds,
        "stored bytes": found.stored_bytes,
    }
    limits = {
        name: f"{quota.used:,.10g} of {quota.limit:,.10g}" if quota.limit else f"{quota.used:,.10g}"
        for name, quota in counted.items()
    }
    print_fields({**limits, "requests per second": found.requests_per_second})
