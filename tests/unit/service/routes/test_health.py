from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, func, select, update

from d4explain.contracts.scopes import DEFAULT_TENANT
from service.app import create_app
from service.routes.health import readiness
from store import jobs
from store.database import job_totals
from store.database.tables import Job, Worker
from store.jobs import workers
from store.jobs.submission import JOB_FORMAT
from store.queue.dispatcher import Dispatcher
from store.queue.queue_publisher import BrokerDown


def figures(api):
    """Samples of /metrics by name and labels."""
    families = text_string_to_metric_families(api.client.get("/metrics").text)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_livez(api):
    answer = api.client.get("/livez")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_ready_without_a_broker_which_is_listed_as_a_reason(api):
    answer = api.client.get("/readyz")
    assert answer.status_code == 200
    state = answer.json()
    assert state["status"] == "ready"
    assert state["accepts_submissions"] is True
    assert state["checks"]["broker"]["ok"] is False
    assert any(reason.startswith("broker: ") for reason in state["reasons"])
    assert api.explanation()["state"] == "queued"


def test_ready_with_database_broker_and_workers(api):
    context = create_app(api.store, ping_broker=lambda: True).state.context
    with api.store.database.transaction() as session:
        workers.beat(session, name="w1", queues=["sample", "light"], device="cpu", pid=1)
    state = readiness(context)
    assert state.status == "ready"
    assert state.reasons == ["workers: no live worker serves train"]
    assert [(worker.name, worker.queues) for worker in state.workers] == [
        ("w1", ["sample", "light"])
    ]

    with api.store.database.transaction() as session:
        workers.beat(session, name="w2", queues=["train"], device="cuda:0", pid=2)
    assert readiness(context).reasons == []


def test_jobs_of_a_format_that_no_live_worker_knows_are_a_reason(api):
    context = create_app(api.store, ping_broker=lambda: True).state.context
    with api.store.database.transaction() as session:
        for name in ("old", "older"):
            queues = [queue.value for queue in jobs.Queue]
            workers.beat(session, name=name, queues=queues, device="cpu", pid=1)
        session.execute(update(Worker).where(Worker.name == "older").values(job_format=0))
    gnn = api.gnn(state="probing")
    assert readiness(context).reasons == []
    with api.store.database.transaction() as session:
        session.execute(update(Worker).values(job_format=0))
    assert readiness(context).reasons == [
        f"workers: 1 jobs in the queue light have format {JOB_FORMAT}, but its live workers know "
        "formats up to 0; start workers of the API's version"
    ]
    assert api.client.get(f"/v1/gnns/{gnn}").json()["state"] == "probing"


def test_an_unavailable_broker_is_a_reason(api):
    state = readiness(create_app(api.store, ping_broker=lambda: False).state.context)
    assert state.status == "ready"
    assert state.reasons[0] == ("broker: unavailable; jobs are accepted and start when it is back")
    assert state.accepts_submissions


def test_without_the_database_requests_get_503(api):
    for table in ("workers", "gnns"):
        with api.store.database.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO gone_{table}")
    answer = api.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["accepts_submissions"] is False
    assert answer.json()["reasons"][0].startswith("database: ")
    unavailable = api.client.get("/v1/gnns")
    assert unavailable.status_code == 503
    assert unavailable.json()["type"].endswith("database-unavailable")
    assert int(unavailable.headers["retry-after"]) > 0
    assert "gnns" not in unavailable.text.replace("/v1/gnns", "")
    metrics = figures(api)
    assert metrics["d4_database_up",] == 0


def test_metrics_count_requests_by_route_and_jobs_by_state(api):
    gnn = api.gnn()
    for _ in range(3):
        api.client.get(f"/v1/gnns/{gnn}")
    api.client.get("/v1/gnns/gnn_unknown")
    api.client.get("/nowhere/at/all")
    api.client.request("BREW", "/nowhere")
    api.explanation()
    with api.store.database.transaction() as session:
        workers.beat(session, name="w", queues=["train", "light"], device="cpu", pid=1)

    found = figures(api)

    def requests(method, route, status):
        labels = (("method", method), ("route", route), ("status", status))
        return found.get(("d4_http_requests_total", *labels), 0)

    assert requests("GET", "/v1/gnns/{gnn_id}", "200") == 3
    assert requests("GET", "/v1/gnns/{gnn_id}", "404") == 1
    assert requests("GET", "unmatched", "404") == 1
    assert requests("OTHER", "unmatched", "404") == 1
    assert requests("POST", "/v1/explanations", "202") == 1
    assert found["d4_jobs", ("kind", "train"), ("state", "queued")] == 1
    assert found["d4_jobs", ("kind", "probe"), ("state", "succeeded")] == 2
    assert found["d4_queue_depth", ("queue", "train"), ("state", "queued")] == 1
    assert found["d4_queue_depth", ("queue", "sample"), ("state", "waiting")] == 1
    assert found["d4_workers", ("queue", "train")] == 1
    assert found["d4_webhook_deliveries", ("state", "pending")] == 0
    assert found["d4_workers", ("queue", "sample")] == 0
    labels = (("le", "+Inf"), ("method", "GET"), ("route", "/v1/gnns/{gnn_id}"))
    assert found["d4_http_request_seconds_bucket", *labels] == 4


def test_a_scrape_does_not_read_ended_jobs(api):
    api.finish_explanation(api.explanation())
    plans = []

    def explain(connection, _cursor, statement, parameters, *_):
        if statement.startswith("SELECT"):
            raw = connection.connection.driver_connection
            plans.extend(
                row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            )

    engine = api.store.database.engine
    event.listen(engine, "before_cursor_execute", explain)
    try:
        found = figures(api)
    finally:
        event.remove(engine, "before_cursor_execute", explain)
    about_jobs = [plan for plan in plans if plan.split()[1] == "jobs"]
    assert about_jobs
    assert all("(state=?)" in plan for plan in about_jobs), about_jobs
    for kind in ("probe", "train", "counterfactual"):
        assert found["d4_jobs", ("kind", kind), ("state", "succeeded")] == 1


def test_ended_jobs_are_counted_once_for_every_ending(api):
    waiting = api.explanation()
    training = waiting["job"]["waiting_for"]
    api.finish(waiting["answers"][0]["job"])
    assert api.client.post(f"/v1/jobs/{training}/cancel").status_code == 200
    assert api.client.post(f"/v1/jobs/{training}/cancel").status_code in (200, 409)
    found = figures(api)
    assert found["d4_jobs", ("kind", "train"), ("state", "canceled")] == 1
    assert found["d4_jobs", ("kind", "counterfactual"), ("state", "failed")] == 1  # with it
    assert found["d4_jobs", ("kind", "train"), ("state", "queued")] == 0
    with api.store.database.reading() as session:
        ended = select(Job.kind, Job.state, func.count()).where(Job.finished_at.is_not(None))
        rows = session.execute(ended.group_by(Job.kind, Job.state)).all()
        assert job_totals.read(session) == {(kind, state): count for kind, state, count in rows}


def test_an_ending_that_is_rolled_back_is_not_counted(api):
    posted = api.explanation()
    before = figures(api)

    def half() -> None:
        with api.store.database.transaction() as session:
            jobs.cancel(session, posted["job"]["waiting_for"], tenant=DEFAULT_TENANT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert {name: value for name, value in figures(api).items() if name[0] == "d4_jobs"} == {
        name: value for name, value in before.items() if name[0] == "d4_jobs"
    }


def test_two_apps_in_one_process_do_not_share_metrics(api):
    api.client.get("/livez")
    other = create_app(api.store)
    assert other.state.registry is not api.client.app.state.registry


@pytest.mark.parametrize("address", ["/v1/jobs", "/livez", "/metrics", "/nowhere", "/", "/docs"])
def test_headers_of_every_response(api, address):
    answer = api.client.get(address)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] in ("no-referrer", "same-origin")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_an_internal_error_is_a_problem(api):
    """A missing artifact is an internal error; the response has no details."""
    posted = api.explanation()
    api.finish_explanation(posted)
    for artifact in list(api.store.artifacts.listed()):
        api.store.artifacts.of("default").delete(artifact.digest)
    answer = api.client.get(f"/v1/explanations/{posted['id']}")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["detail"] == "Internal error; see the service's log."


class UnavailablePublisher:
    """The publisher of an unreachable broker."""

    def publish(self, announced):
        raise BrokerDown("connection refused")

    def epoch(self):
        raise BrokerDown("connection refused")

    def close(self):
        pass


class RecordingPublisher:
    def __init__(self):
        self.published = []

    def publish(self, announced):
        self.published += [(one.job_id, one.queue) for one in announced]

    def epoch(self):
        return "1"

    def close(self):
        pass


@pytest.mark.parametrize(
    "publisher", [UnavailablePublisher(), RecordingPublisher()], ids=["down", "up"]
)
def test_submitting_does_not_depend_on_the_broker(api, publisher):
    dispatcher = Dispatcher(api.store.database, publisher, api.store.settings)
    app = create_app(api.store, dispatcher=dispatcher)
    with type(api.client)(app, "http://127.0.0.1") as client:
        api.client = client
        posted = api.explanation()
        assert posted["state"] == "queued"
        if isinstance(publisher, RecordingPublisher):
            training = posted["job"]["waiting_for"]
            api.soon(lambda: None, when=lambda: (training, "train") in publisher.published).join()
