"""/metrics and /v1/metrics after jobs that really ran."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select, update

from d4explain.contracts.job_states import EventType
from d4explain.contracts.scopes import Scope
from store import jobs
from store.access import api_keys
from store.database.clock import now
from store.database.tables import Job
from store.jobs import reaper, workers
from store.metrics.metric_store import STORED_SERIES
from tests.processes import Broker
from tests.unit.flows.test_search import SPEC, edge_counter, ring

torch.set_num_threads(1)
NAMED = {"gnn": "edges", "version": "1", "dataset": "rings", "dataset_version": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any], broker: Broker) -> Any:
    return deployed(redis_url=broker.url)


@pytest.fixture(scope="module")
def inputs(api: Any) -> dict[str, str]:
    spec = {**SPEC, "class_names": ["small", "large"]}
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "edges", "spec": json.dumps(spec)},
        files={"weights": ("w", edge_counter(18.5))},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    api.work()
    dataset = api.client.post(
        "/v1/datasets", json={"name": "rings", "graphs": [ring(n) for n in range(5, 12)]}
    )
    return {"gnn": gnn.json()["id"], "dataset": dataset.json()["id"]}


@pytest.fixture(scope="module")
def explained(api: Any, inputs: dict[str, str]) -> dict[str, Any]:
    """Three small graphs: an edit flips two of them, nothing the third."""
    posted = api.client.post(
        "/v1/explanations",
        json={
            "kind": "counterfactual",
            **inputs,
            "graphs": [ring(6), ring(6), ring(3)],
            "explainer": "search",
            "aim": "minimal",
            "judges": "none",
            "constraints": {"max_edits": 2},
        },
    )
    assert posted.status_code == 202, posted.text
    api.work()
    answer = api.client.get(f"/v1/explanations/{posted.json()['id']}")
    assert answer.json()["state"] == "succeeded", answer.text
    return dict(answer.json())


def scraped(api: Any, path: str, **labels: str) -> dict[str, float]:
    """Values by name and by the labels beside the given ones."""
    answer = api.client.get(path)
    assert answer.status_code == 200, answer.text
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            if sample.labels.items() >= labels.items():
                more = sorted(sample.labels.items() - labels.items())
                found[" ".join([sample.name, *(f"{name}={value}" for name, value in more)])] = (
                    sample.value
                )
    return found


def test_figures_of_answers_are_those_of_the_result(api: Any, explained: dict[str, Any]) -> None:
    answers = explained["result"]["answers"]
    found = [answer["counterfactuals"][0] for answer in answers if answer["found"]]
    assert len(found) == 2
    small = scraped(api, "/v1/metrics", **NAMED, **{"class": "small"})
    assert small["d4_explained_graphs_total"] == 3
    assert small["d4_flipped_graphs_total"] == len(found)
    assert small["d4_validity_ratio"] == pytest.approx(len(found) / 3)
    edits = [len(one["edits"]) for one in found]
    assert small["d4_edits_count"] == len(found)
    assert small["d4_edits_sum"] == sum(edits)
    for bound in (1.0, 2.0, 3.0):
        assert small[f"d4_edits_bucket le={bound}"] == sum(count <= bound for count in edits)
    assert "d4_judged_flips_total" not in small  # nobody judged
    mmd = scraped(api, "/v1/metrics", **NAMED, **{"class": "all", "kind": "counterfactual"})
    for stat in ("degree", "clustering", "spectrum", "sum"):
        assert mmd[f"d4_mmd stat={stat}"] == explained["result"]["mmd"][stat]
    assert mmd["d4_mmd_null_p95"] == explained["result"]["mmd"]["null_quantiles"]["0.95"]


def test_the_deployment_has_the_same_figures_without_names(
    api: Any, explained: dict[str, Any]
) -> None:
    everything = scraped(api, "/metrics")
    named = scraped(api, "/v1/metrics", **NAMED, **{"class": "small"})
    for name in ("d4_explained_graphs_total", "d4_validity_ratio", "d4_edits_sum"):
        assert everything[name] == named[name]
    assert everything["d4_judged_flips_total"] == 0
    text = api.client.get("/metrics").text
    for name in ("edges", "rings", "small", explained["id"], "default"):
        assert f'"{name}"' not in text
    assert "d4_mmd" not in text


def test_seconds_of_jobs_are_those_of_their_rows(api: Any, explained: dict[str, Any]) -> None:
    with api.store.database.reading() as session:
        row = jobs.get(session, explained["job"]["id"], "default")
    for path in ("/metrics", "/v1/metrics"):
        seconds = scraped(api, path, kind="counterfactual")
        assert seconds["d4_job_seconds_count phase=queued"] == 1
        assert seconds["d4_job_seconds_sum phase=queued"] == pytest.approx(
            row.started_at - row.created_at, abs=1e-6
        )
        assert seconds["d4_job_seconds_sum phase=running"] == pytest.approx(
            row.finished_at - row.started_at, abs=1e-6
        )
        parts = {name: f"d4_job_seconds_sum phase={name}" for name in ("load", "search")}
        timings = explained["result"]["timings"]
        assert seconds[parts["load"]] == pytest.approx(timings["load_seconds"], abs=0.3)
        assert seconds[parts["search"]] <= timings["explain_seconds"] + 0.01
        assert sum(seconds[part] for part in parts.values()) <= row.finished_at - row.started_at
        assert "d4_job_seconds_count phase=waiting" not in seconds
        assert seconds["d4_job_seconds_bucket le=+Inf phase=search"] == 1


def test_time_spent_waiting_for_a_training_is_not_queueing(
    api: Any, inputs: dict[str, str]
) -> None:
    posted = api.client.post(
        "/v1/explanations",
        json={"kind": "counterfactual", **inputs, "graph": ring(6), "denoiser": {"steps": 2}},
    ).json()
    job_id = posted["job"]["id"]
    before = scraped(api, "/metrics", kind="counterfactual")
    api.work()
    after = scraped(api, "/metrics", kind="counterfactual")
    with api.store.database.reading() as session:
        row = jobs.get(session, job_id, "default")
        states = [
            one
            for one in jobs.events(session, job_id, tenant="default")
            if one.type is EventType.STATE
        ]
    released = next(one.at for one in states if one.data["waiting_for"] is None)

    def added(phase: str) -> float:
        name = f"d4_job_seconds_sum phase={phase}"
        return after[name] - before.get(name, 0)

    assert added("waiting") == pytest.approx(released - row.created_at, abs=1e-6)
    assert added("queued") == pytest.approx(row.started_at - released, abs=1e-6)
    trained = scraped(api, "/metrics", kind="train")
    denoiser = api.client.get(f"/v1/denoisers/{posted['denoiser']}").json()
    assert trained["d4_job_seconds_sum phase=training"] == pytest.approx(
        denoiser["metrics"]["seconds"], abs=0.001
    )


def test_claims_and_lease_losses_are_counted(api: Any, inputs: dict[str, str]) -> None:
    before = scraped(api, "/metrics", kind="predict")
    assert before["d4_lease_losses_total"] == 0
    asked = api.client.post(
        f"/v1/gnns/{inputs['gnn']}/predictions",
        json={"graph": ring(6)},
        headers={"Prefer": "respond-async"},
    )
    job_id = asked.json()["job"]["id"]
    api.claim(job_id)
    with api.store.database.transaction() as session:
        session.execute(update(Job).where(Job.id == job_id).values(lease_until=now() - 1))
        assert reaper.reap(session) == [job_id]
    api.work()
    after = scraped(api, "/metrics", kind="predict")
    assert after["d4_lease_losses_total"] == 1
    assert after["d4_job_claims_total"] == before["d4_job_claims_total"] + 2


def test_a_rolled_back_transaction_counts_nothing(api: Any, inputs: dict[str, str]) -> None:
    asked = api.client.post(
        f"/v1/gnns/{inputs['gnn']}/predictions",
        json={"graph": ring(6)},
        headers={"Prefer": "respond-async"},
    )
    before = scraped(api, "/metrics", kind="predict")["d4_job_claims_total"]

    def claim_and_fail() -> None:
        with api.store.database.transaction() as session:
            assert jobs.claim(session, asked.json()["job"]["id"], "test", 60) is not None
            raise RuntimeError

    with pytest.raises(RuntimeError):
        claim_and_fail()
    assert scraped(api, "/metrics", kind="predict")["d4_job_claims_total"] == before
    api.work()


def test_the_age_of_a_queue_is_that_of_its_oldest_job(api: Any, inputs: dict[str, str]) -> None:
    assert scraped(api, "/metrics", queue="light")["d4_queue_age_seconds"] == 0
    api.client.post(
        f"/v1/gnns/{inputs['gnn']}/predictions",
        json={"graph": ring(6)},
        headers={"Prefer": "respond-async"},
    )
    with api.store.database.transaction() as session:
        queued = session.scalars(select(Job).where(Job.state == "queued")).one()
        queued.created_at -= 100
    for path in ("/metrics", "/v1/metrics"):
        assert 100 <= scraped(api, path, queue="light")["d4_queue_age_seconds"] < 160
    api.work()


def test_workers_report_their_memory(api: Any) -> None:
    from worker.process.memory_use import memory_use  # noqa: PLC0415

    with api.store.database.transaction() as session:
        workers.beat(session, name="w1", queues=["train"], device="cpu", pid=1)
    api.store.metrics.report_worker("w1", memory_use("cpu"))
    api.store.metrics.report_worker("dead", {"resident_bytes": 1})
    found = scraped(api, "/metrics", worker="w1")
    assert found["d4_worker_resident_bytes"] > 100 * 2**20  # torch alone
    assert found["d4_worker_memory_limit_bytes"] >= found["d4_worker_resident_bytes"]
    assert "d4_device_memory_bytes" not in found
    assert not scraped(api, "/metrics", worker="dead")


def test_names_of_a_tenant_never_reach_another_one(
    deployed: Callable[..., Any], broker: Broker
) -> None:
    """Both run the same job; each scrape shows its own."""
    root = deployed(redis_url=broker.url)
    with root.store.database.transaction() as session:
        keys = {
            tenant: api_keys.create(session, tenant=tenant, name=tenant, scopes=list(Scope)).text
            for tenant in ("lab", "clinic")
        }
    for tenant, key in keys.items():
        headers = {"Authorization": f"Bearer {key}"}
        owner = type(root)(
            root.store,
            type(root.client)(root.client.app, "http://127.0.0.1", headers=headers),
            tenant,
        )
        gnn = owner.client.post(
            "/v1/gnns",
            data={"name": f"gnn-of-{tenant}", "spec": json.dumps(SPEC)},
            files={"weights": ("w", edge_counter(18.5))},
            headers={"Prefer": "respond-async"},
        ).json()["id"]
        owner.work()
        graphs = [ring(n) for n in range(5, 9)]
        dataset = owner.client.post(
            "/v1/datasets", json={"name": f"set-of-{tenant}", "graphs": graphs}
        ).json()["id"]
        asked = {
            "kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": ring(6),
            "explainer": "search", "aim": "minimal", "judges": "none",
        }  # fmt: skip
        assert owner.client.post("/v1/explanations", json=asked).status_code == 202
        owner.work()
    texts = {
        tenant: root.client.get("/v1/metrics", headers={"Authorization": f"Bearer {key}"}).text
        for tenant, key in keys.items()
    }
    everything = root.client.get(
        "/metrics", headers={"Authorization": f"Bearer {keys['lab']}"}
    ).text
    assert "gnn-of-lab" in texts["lab"]
    assert "set-of-clinic" in texts["clinic"]
    for text, foreign in (
        (texts["lab"], ("clinic",)),
        (texts["clinic"], ("lab",)),
        (everything, ("lab", "clinic")),
    ):
        assert not any(f"-of-{name}" in text or f'"{name}"' in text for name in foreign)


def test_an_unreachable_broker_leaves_the_figures_of_the_database(
    deployed: Callable[..., Any],
) -> None:
    api = deployed(redis_url="redis://127.0.0.1:1/0")
    for path in ("/metrics", "/v1/metrics"):
        found = scraped(api, path)
        assert (found["d4_database_up"], found["d4_metrics_up"]) == (1, 0)
        assert found["d4_jobs kind=train state=queued"] == 0


def test_the_documentation_lists_every_series(api: Any, explained: dict[str, Any]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/monitoring.md").read_text()
    table = page.partition("<!-- series -->\n")[2].partition("\n\n")[0]
    documented = {
        name.removesuffix("_total")
        for row in table.splitlines()[2:]
        for name in re.findall(r"`(d4_\w+)`", row.split("|")[1])
    }
    scraped_names = {
        family.name
        for path in ("/metrics", "/v1/metrics")
        for family in text_string_to_metric_families(api.client.get(path).text)
        if not family.name.endswith("_created")  # added by the client library
    }
    assert scraped_names - documented == set()
    assert documented == scraped_names | {"d4_device_used_bytes", "d4_device_memory_bytes"} | {
        series.name for series in STORED_SERIES
    }
