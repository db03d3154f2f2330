"""One tenant sends as much as it can while another one works."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from d4explain.contracts.scopes import Scope
from store.access import api_keys
from store.settings import Settings
from store.store import Store
from tests.abuse.exchange import ATTACKERS
from tests.abuse.report import Attack, Report
from tests.abuse.service import Api, RegularClient
from tests.conftest import Deployment

FLOOD = "a flooding tenant"
_FLOOD_SECONDS = 20.0
_CONNECTIONS = 64


def flood(folder: Path, report: Report) -> None:
    """Adds the attack; the regular client belongs to the other tenant."""
    folder.mkdir()
    api = Api(folder)
    try:
        keys = {tenant: _new_key(api, tenant) for tenant in ("quiet", "loud")}
        jobs = {tenant: _stored(api, tenant, key) for tenant, key in keys.items()}
        explanation, body = jobs["quiet"]
        client = RegularClient(
            api.port, explanation["job"]["id"], explanation["id"], body, keys["quiet"]
        )
        time.sleep(3.0)  # its process starts
        attack = Attack(FLOOD, began=time.monotonic())
        asyncio.run(_flood(api, keys["loud"], jobs["loud"][1], attack))
        attack.ended = time.monotonic()
        attack.peak_bytes, attack.peak_tree_bytes = api.memory()
        report.timed += client.stop()
        report.attacks.append(attack)
    finally:
        api.close()


def _new_key(api: Api, tenant: str) -> str:
    with (
        Store.open(Settings(data_dir=api.folder), migrate=False) as store,
        store.database.transaction() as session,
    ):
        key = api_keys.create(session, tenant=tenant, name=tenant, scopes=list(Scope))
        return key.text


def _stored(api: Api, tenant: str, key: str) -> tuple[dict[str, Any], bytes]:
    """A finished explanation of the tenant, and the body of another request."""
    headers = {"Authorization": f"Bearer {key}"}
    with (
        Store.open(Settings(data_dir=api.folder), migrate=False) as store,
        httpx.Client(base_url=api.client.base_url, headers=headers, timeout=30) as client,
    ):
        deployment = Deployment(store, client, tenant)
        posted = deployment.explanation()
        deployment.finish_explanation(posted)
    body = {
        "kind": "counterfactual",
        "gnn": posted["gnn"],
        "dataset": posted["dataset"],
        "graph": Deployment.graph(),
    }
    return posted, json.dumps(body).encode()


async def _flood(api: Api, key: str, body: bytes, attack: Attack) -> None:
    """Submits, reads and lists over many connections, as fast as they answer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    ends = time.monotonic() + _FLOOD_SECONDS
    seeds = count()

    async def connection(number: int) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=ATTACKERS[number % len(ATTACKERS)])
        base_url = f"http://127.0.0.1:{api.port}"
        async with httpx.AsyncClient(
            base_url=base_url, headers=headers, transport=transport, timeout=30
        ) as client:
            while time.monotonic() < ends:
                began = time.monotonic()
                seeded = {**json.loads(body), "seed": next(seeds)}
                answers = [
                    await client.post("/v1/explanations", json=seeded),
                    await client.get("/v1/explanations?limit=100"),
                ]
                seconds = (time.monotonic() - began) / len(answers)
                attack.answers += [(answer.status_code, seconds) for answer in answers]

    await asyncio.gather(*(connection(number) for number in range(_CONNECTIONS)))
