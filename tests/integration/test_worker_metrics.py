"""Figures of several workers and APIs: every process counts into the same series, once."""

from __future__ import annotations

from collections import Counter

import httpx
from prometheus_client.parser import text_string_to_metric_families

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.requests import CanonicalGraph, PredictionRequest
from store import jobs
from store.catalogue import gnns
from tests.processes import EdgeCounter, ServiceProcess, Stack

COUNT = 24


def submitted(stack: Stack, edge_counter: EdgeCounter, count: int) -> list[str]:
    artifacts = stack.store.artifacts.of("default")
    weights = artifacts.put(edge_counter.weights)
    graph = CanonicalGraph(node_ids=[0, 1], x=[[1.0], [1.0]], edges=[(0, 1)])
    request = PredictionRequest(graphs=[graph]).model_dump_json().encode()
    digest = artifacts.put(request)
    with stack.store.database.transaction() as session:
        gnn, probe = gnns.create(
            session,
            name="edges",
            spec=parse_spec(edge_counter.spec),
            weights_digest=weights,
            tenant="default",
        )
        jobs.cancel(session, probe.id, "default")
        return [
            jobs.submit(
                session,
                tenant="default",
                kind=JobKind.PREDICT,
                subject_id=gnn.id,
                gnn_id=gnn.id,
                request_digest=digest,
            ).id
            for _ in range(count)
        ]


def scraped(service: ServiceProcess) -> dict[tuple[str, ...], float]:
    text = httpx.get(f"{service.url}/metrics").text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_workers_and_apis_share_their_figures(stack: Stack, edge_counter: EdgeCounter) -> None:
    services = [stack.start_service() for _ in range(2)]
    first, second = stack.ensure_workers(2)
    ids = submitted(stack, edge_counter, COUNT)

    def have_ended() -> bool:
        with stack.store.database.reading() as session:
            found = jobs.get_all(session, ids, "default").values()
            return all(job.state is JobState.SUCCEEDED for job in found)

    stack.until(have_ended, "all predictions have ended")
    started = [one for one in stack.logs("Starting attempt") if one["job"] in ids]
    busy = Counter(
        worker.log.name
        for worker in (first, second)
        for one in started
        if f'"{one["job"]}"' in worker.log.read_text()
    )
    assert sum(busy.values()) == COUNT

    def is_shown() -> bool:
        return scraped(services[0])["d4_job_claims_total", "predict"] == COUNT

    stack.until(is_shown, "the last publication has arrived")
    for service in services:
        found = scraped(service)
        assert found["d4_job_claims_total", "predict"] == COUNT
        assert found["d4_job_seconds_count", "predict", "running"] == COUNT
        assert found["d4_job_seconds_bucket", "predict", "+Inf", "queued"] == COUNT
        memory = [value for key, value in found.items() if key[0] == "d4_worker_resident_bytes"]
        assert len(memory) == 2
        assert min(memory) > 50 * 2**20


def test_a_lost_lease_is_counted_by_the_leader(stack: Stack, edge_counter: EdgeCounter) -> None:
    """The reaper of an API finds the job of a worker that is gone."""
    service = stack.services[0]
    for worker in stack.workers:
        worker.kill()
    [job_id] = submitted(stack, edge_counter, 1)
    with stack.store.database.transaction() as session:
        assert jobs.claim(session, job_id, "gone", 1.0) is not None

    def is_counted() -> bool:
        return scraped(service)["d4_lease_losses_total", "predict"] == 1

    stack.until(is_counted, "the lost lease is counted")
    assert scraped(stack.services[1])["d4_lease_losses_total", "predict"] == 1
