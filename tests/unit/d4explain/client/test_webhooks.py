"""Webhooks through client and command line, against the real API."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from d4explain import Client, RefusedError
from d4explain.cli.main import main
from d4explain.contracts.job_states import JobKind
from d4explain.contracts.webhooks import DeliveryState, SendFailure, WebhookEvent
from store import jobs
from store.settings import Settings
from store.store import Store
from store.webhooks import deliveries
from store.webhooks.deliveries import AttemptResult, Full

URL = "https://hooks.example.org/d4"


@pytest.fixture
def opened_store(tmp_path: Path, _empty_database: Path) -> Iterator[Store]:
    """The store of `served`, with webhooks."""
    settings = Settings(data_dir=tmp_path / "data", webhook_hosts="hooks.example.org")
    settings.data_dir.mkdir()
    shutil.copy(_empty_database, settings.data_dir / "d4explain.sqlite")
    with Store.open(settings, migrate=False) as store:
        yield store


@pytest.fixture
def client(served: Any) -> Iterator[Client]:
    with Client(str(served.client.base_url)) as client:
        yield client


@pytest.fixture
def run(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs a command of `d4explain webhooks` and returns what it prints."""
    monkeypatch.setenv("D4_URL", client.url)

    def run_command(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["webhooks", *arguments])
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run_command


def end_job(store: Store) -> str:
    """The id of a job that has been canceled."""
    with store.database.transaction() as session:
        job = jobs.submit(session, kind=JobKind.PREDICT, tenant="default")
        jobs.cancel(session, job.id, "default")
        return job.id


def fail_once(store: Store) -> None:
    with store.database.transaction() as session:
        claimed = deliveries.claim(
            session, places=9, full=Full(), take_place=lambda *_: True, lease_seconds=30
        )
        results = [AttemptResult(one, 0.5, 503, SendFailure.STATUS) for one in claimed]
        deliveries.record(session, results, retry_seconds=0, rng=Random(0))


def test_the_client_registers_changes_and_repeats(client: Client, opened_store: Store) -> None:
    created = client.create_webhook(URL, [WebhookEvent.JOB_CANCELED], "mine")
    assert created.secret.startswith("whsec_")
    assert created.secret not in repr(created)
    assert [one.id for one in client.webhooks()] == [created.id]
    assert client.change_webhook(created.id, events=None, enabled=True).events is None
    assert client.rotate_webhook(created.id).secret != created.secret
    job_id = end_job(opened_store)
    (pending,) = client.webhook_deliveries(webhook=created.id, state=DeliveryState.PENDING)
    assert (pending.job, pending.event, pending.attempts) == (job_id, "job.canceled", 0)
    fail_once(opened_store)
    ended = client.webhook_delivery(pending.id)
    assert (ended.state, ended.history[0].failure) == (DeliveryState.GIVEN_UP, "status")
    assert client.redeliver(pending.id).state is DeliveryState.PENDING
    client.delete_webhook(created.id)
    with pytest.raises(RefusedError, match="no webhook"):
        client.webhook(created.id)


def test_the_commands_do_the_same(run: Callable[..., str], opened_store: Store) -> None:
    webhook_id, secret = run("create", URL, "--event", "job.canceled").split()
    assert secret.startswith("whsec_")
    assert webhook_id in run("list")
    assert "job.canceled" in run("show", webhook_id)
    assert secret not in run("show", webhook_id, "--json")
    assert json.loads(run("rotate", webhook_id, "--json"))["secret"] != secret
    end_job(opened_store)
    (listed,) = json.loads(run("deliveries", "--json"))
    fail_once(opened_store)
    assert "status 503" in run("deliveries", "--state", "given_up")
    assert "status, status 503, 0.5 s" in run("delivery", listed["id"])
    assert "sent again" in run("redeliver", listed["id"])
    run("change", webhook_id, "--disable", "--description", "later")
    assert "disabled" in run("show", webhook_id)
    run("delete", webhook_id)
    assert "no webhooks" in run("list")
