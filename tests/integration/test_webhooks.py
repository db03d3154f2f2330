"""Notifications reach a real receiver from real worker processes, whatever dies on the way."""

from __future__ import annotations

import ssl
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select
from standardwebhooks import Webhook as Verifier

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import JobKind
from d4explain.contracts.requests import CanonicalGraph, PredictionRequest
from d4explain.contracts.webhooks import DeliveryState
from d4explain.stack.ports import free_port
from store import jobs
from store.catalogue import gnns
from store.database.tables import Job
from store.database.tables.webhooks import WebhookDelivery
from store.queue.dispatcher import Dispatcher
from store.webhooks import deliveries, endpoints
from tests.processes import EdgeCounter, Stack, opened_stack
from tests.receivers import Received, Receiver, receiver

PAIRS, JOBS = 7, 100  # of the comparison with a dead receiver
LOCAL = {"webhook_hosts": "127.0.0.1", "webhook_private_hosts": "127.0.0.1"}


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, self_signed: tuple[Path, ssl.SSLContext]
) -> Iterator[Stack]:
    """Its workers may notify this machine and trust its certificate."""
    with (
        pytest.MonkeyPatch.context() as patched,
        opened_stack(tmp_path_factory.mktemp("stack"), **LOCAL) as running,
    ):
        patched.setenv("SSL_CERT_FILE", str(self_signed[0]))
        yield running


@pytest.fixture(autouse=True)
def _worker(stack: Stack) -> None:
    """Sends as soon as its parent process runs; jobs wait for the child."""
    if not any(worker.is_alive for worker in stack.workers):
        stack.start_worker("light")


@pytest.fixture(scope="module")
def gnn_id(stack: Stack, edge_counter: EdgeCounter) -> str:
    """A GNN for predictions; nothing runs its probe."""
    weights = stack.store.artifacts.of("default").put(edge_counter.weights)
    with stack.store.database.transaction() as session:
        gnn, job = gnns.create(
            session,
            name="edges",
            spec=parse_spec(edge_counter.spec),
            weights_digest=weights,
            tenant="default",
        )
        jobs.cancel(session, job.id, "default")
        return gnn.id


def register(stack: Stack, url: str, tenant: str = "default") -> tuple[str, str]:
    """The id and the secret of a new webhook."""
    with stack.store.database.transaction() as session:
        webhook = endpoints.create(session, url=url, tenant=tenant)
        return webhook.id, webhook.secret


def remove(stack: Stack, *ids: str, tenant: str = "default") -> None:
    with stack.store.database.transaction() as session:
        for id_ in ids:
            endpoints.remove(session, id_, tenant)


def end_jobs(stack: Stack, count: int = 1, tenant: str = "default") -> list[str]:
    """Jobs that end at once, without a worker."""
    with stack.store.database.transaction() as session:
        ids = [jobs.submit(session, kind=JobKind.PREDICT, tenant=tenant).id for _ in range(count)]
        for id_ in ids:
            jobs.cancel(session, id_, tenant)
    return ids


def predict(stack: Stack, gnn_id: str, count: int) -> list[str]:
    graph = CanonicalGraph(node_ids=[0, 1], x=[[1.0], [1.0]], edges=[(0, 1)])
    request = PredictionRequest(graphs=[graph]).model_dump_json().encode()
    digest = stack.store.artifacts.of("default").put(request)
    with stack.store.database.transaction() as session:
        return [
            jobs.submit(
                session,
                tenant="default",
                kind=JobKind.PREDICT,
                subject_id=gnn_id,
                gnn_id=gnn_id,
                request_digest=digest,
            ).id
            for _ in range(count)
        ]


def states(stack: Stack, webhook_id: str) -> Counter[DeliveryState]:
    with stack.store.database.reading() as session:
        rows = session.execute(
            select(WebhookDelivery.state, func.count())
            .where(WebhookDelivery.webhook_id == webhook_id)
            .group_by(WebhookDelivery.state)
        )
        return Counter(dict(rows.all()))


def jobs_of(received: list[Received]) -> list[str]:
    return [one.message["data"]["id"] for one in list(received)]


def until_received(stack: Stack, target: Receiver, count: int, seconds: float = 90.0) -> None:
    stack.until(lambda: len(set(target.ids())) >= count, f"{count} notifications", seconds)


def test_each_end_is_delivered_once_and_signed(
    stack: Stack, dispatcher: Dispatcher, gnn_id: str, self_signed: tuple[Path, ssl.SSLContext]
) -> None:
    with receiver(self_signed[1]) as target:
        webhook_id, secret = register(stack, target.url)
        ran = predict(stack, gnn_id, 5)
        dispatcher.notify()
        canceled = end_jobs(stack, 3)
        until_received(stack, target, 8)
        stack.until(
            lambda: states(stack, webhook_id) == {DeliveryState.DELIVERED: 8}, "all are recorded"
        )
        assert sorted(jobs_of(target.received)) == sorted([*ran, *canceled])
        for one in target.received:
            message = Verifier(secret).verify(one.body, one.headers)
            state = "succeeded" if message["data"]["id"] in ran else "canceled"
            assert (message["type"], message["data"]["state"]) == (f"job.{state}", state)
        remove(stack, webhook_id)


def test_a_receiver_that_fails_gets_it_again(stack: Stack) -> None:
    with receiver() as target:
        webhook_id, secret = register(stack, target.url)
        target.status = 500
        end_jobs(stack)
        stack.until(lambda: len(target.received) >= 2, "it was sent again")
        target.status = 204
        stack.until(lambda: states(stack, webhook_id)[DeliveryState.DELIVERED] == 1, "delivered")
        assert len(set(target.ids())) == 1
        assert len({one.headers["webhook-timestamp"] for one in target.received}) > 1
        Verifier(secret).verify(target.received[-1].body, target.received[-1].headers)
        with stack.store.database.reading() as session:
            (delivery,) = deliveries.page(session, "default", webhook_id=webhook_id).items
        *failed, last = delivery.history
        assert {(entry["status"], entry["failure"]) for entry in failed} == {(500, "status")}
        assert (last["status"], last["failure"]) == (204, None)
        remove(stack, webhook_id)


def test_a_receiver_that_is_down_or_slow_gets_it_again(stack: Stack) -> None:
    port = free_port()
    webhook_id, _ = register(stack, f"http://127.0.0.1:{port}/hook")
    end_jobs(stack)

    def failures() -> set[str]:
        with stack.store.database.reading() as session:
            (delivery,) = deliveries.page(session, "default", webhook_id=webhook_id).items
        return {entry["failure"] for entry in delivery.history}

    stack.until(lambda: failures() == {"connection"}, "an attempt has failed")
    with receiver(port=port) as target:
        target.seconds = 30
        stack.until(lambda: "timeout" in failures(), "an attempt took too long", 60)
        target.seconds = 0
        stack.until(
            lambda: states(stack, webhook_id)[DeliveryState.DELIVERED] == 1, "delivered", 60
        )
        assert len(set(target.ids())) == 1
    remove(stack, webhook_id)


def test_receivers_that_hang_do_not_delay_others(stack: Stack) -> None:
    """Three receivers of one tenant never answer; those of another tenant do."""
    with receiver() as hanging, receiver() as good:
        hanging.seconds = 60
        bad = [register(stack, f"{hanging.url}/{number}", "bad")[0] for number in range(3)]
        end_jobs(stack, 20, "bad")
        stack.until(lambda: len(hanging.received) >= 8, "the places of the tenant are taken")
        webhook_id, _ = register(stack, good.url, "good")
        end_jobs(stack, 20, "good")
        waited = stack.until(lambda: len(set(good.ids())) == 20, "the others are delivered")
        assert waited < 4  # less than one attempt that hangs
        remove(stack, *bad, tenant="bad")
        remove(stack, webhook_id, tenant="good")


def test_a_shutdown_ends_what_is_on_its_way(stack: Stack) -> None:
    with receiver() as target:
        webhook_id, _ = register(stack, target.url)
        target.seconds = 1.0
        end_jobs(stack, 2)
        stack.until(lambda: len(target.received) == 2, "they are on their way")
        (worker,) = [one for one in stack.workers if one.is_alive]
        worker.process.terminate()
        worker.process.wait(30)
        assert states(stack, webhook_id) == {DeliveryState.DELIVERED: 2}
        remove(stack, webhook_id)


def test_killing_the_worker_that_sends_loses_nothing(stack: Stack) -> None:
    """Kills it with SIGKILL while requests are on their way; the leases expire."""
    with receiver() as target:
        target.seconds = 1.5
        webhook_id, _ = register(stack, target.url)
        ended = end_jobs(stack, 12)
        stack.until(lambda: len(target.received) >= 6, "some are on their way", 60)
        for worker in stack.workers:
            worker.kill()
        stack.start_worker("light")
        target.seconds = 0
        until_received(stack, target, 12, 90)
        assert sorted(set(jobs_of(target.received))) == sorted(ended)
        stack.until(
            lambda: states(stack, webhook_id) == {DeliveryState.DELIVERED: 12}, "recorded", 60
        )
        remove(stack, webhook_id)


def throughput(stack: Stack, dispatcher: Dispatcher, gnn_id: str, count: int) -> float:
    """Jobs per second, from the first to the last end."""
    ids = predict(stack, gnn_id, count)
    dispatcher.notify()
    ends = select(func.count(), func.min(Job.finished_at), func.max(Job.finished_at)).where(
        Job.id.in_(ids), Job.finished_at.is_not(None)
    )
    deadline = time.monotonic() + 300
    while True:
        with stack.store.database.reading() as session:
            ended, first, last = session.execute(ends).one()
        if ended == count:
            return float((count - 1) / (last - first))
        assert time.monotonic() < deadline, f"only {ended} of {count} jobs have ended"
        time.sleep(0.25)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_dead_receiver_leaves_the_throughput_of_jobs_unharmed(
    stack: Stack, dispatcher: Dispatcher, gnn_id: str
) -> None:
    """A thousand ends for a receiver that refuses connections, against none at all."""
    throughput(stack, dispatcher, gnn_id, 50)
    ratios = []
    for _ in range(PAIRS):
        without = throughput(stack, dispatcher, gnn_id, JOBS)
        webhook_id, _ = register(stack, f"http://127.0.0.1:{free_port()}/dead")
        end_jobs(stack, 1000)
        during = throughput(stack, dispatcher, gnn_id, JOBS)
        assert states(stack, webhook_id) == {DeliveryState.PENDING: 1000 + JOBS}
        remove(stack, webhook_id)
        ratios.append(during / without)
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"jobs per second with a dead receiver, relative to none: {shown}")
    assert statistics.median(ratios) > 0.8


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_time_from_the_end_of_a_job_to_its_delivery(
    stack: Stack, dispatcher: Dispatcher, gnn_id: str
) -> None:
    """200 predictions, one after the other, on a stack that does nothing else."""
    with receiver() as target:
        webhook_id, _ = register(stack, target.url)
        seconds = []
        for number in range(1, 201):
            (job_id,) = predict(stack, gnn_id, 1)
            dispatcher.notify()
            stack.until(lambda: len(target.received) == number, "the notification", 120)  # noqa: B023
            with stack.store.database.reading() as session:
                finished_at = jobs.get(session, job_id, "default").finished_at
            assert finished_at is not None
            seconds.append(target.received[-1].at - finished_at)
            time.sleep(0.05)
        ordered = sorted(seconds)
        print(f"median {ordered[99] * 1000:.0f} ms, p99 {ordered[197] * 1000:.0f} ms")
        assert ordered[99] < 0.5
        remove(stack, webhook_id)
