"""Every state-changing route writes who did what; a new one cannot be forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from service.glossary.page import openapi_document
from store import jobs
from store.access import api_keys
from store.database.sessions import Database
from store.database.tables import Job
from store.database.tables.audit import AuditEntry, Outcome, Source
from store.webhooks import endpoints

KEY = {"name": "a key", "scopes": ["read"]}
HOOK = "https://hooks.example.org/d4"
READING = {"get", "head", "options"}
CHANGING_NOTHING = {"preview_graph", "ask_what_if"}  # they answer about graphs and store nothing


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    """With a key: without any, the API makes no keys and has no sessions."""
    deployment = deployed(webhook_hosts="hooks.example.org")
    with deployment.store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="test", scopes=list(Scope))
    deployment.client.headers["Authorization"] = f"Bearer {key.text}"
    return deployment


def entries(database: Database, **conditions: Any) -> list[AuditEntry]:
    with database.reading() as session:
        query = select(AuditEntry).filter_by(**conditions).order_by(AuditEntry.id)
        return list(session.scalars(query))


def explanation(api: Any) -> Any:
    return api.explanation(explainer="search", aim="minimal", judges="none")


def canceled_job(api: Any) -> str:
    job = str(explanation(api)["job"]["id"])
    assert api.client.post(f"/v1/jobs/{job}/cancel").status_code == 200
    return job


def canceled_prediction(api: Any) -> str:
    path, headers = f"/v1/gnns/{api.gnn()}/predictions", {"Prefer": "respond-async"}
    predicted = api.client.post(path, json={"graph": api.graph()}, headers=headers)
    job = str(predicted.json()["job"]["id"])
    assert api.client.post(f"/v1/jobs/{job}/cancel").status_code == 200
    return job


def named_gnn(api: Any) -> Any:
    return api.client.get(f"/v1/gnns/{api.gnn()}").json()


def aliased(api: Any) -> str:
    gnn = named_gnn(api)
    path = f"/v1/gnns/{gnn['name']}/aliases/production"
    assert api.client.put(path, json={"version": gnn["version"]}).status_code in (200, 201)
    return path


def webhook(api: Any) -> str:
    created = api.client.post("/v1/webhooks", json={"url": HOOK})
    return f"/v1/webhooks/{created.json()['id']}"


def delivery(api: Any) -> str:
    """The path of a delivery, made by the end of a job with a webhook of its own."""
    asked = {"url": HOOK, "secret": endpoints.new_secret()}
    posted = api.explanation(explainer="search", aim="minimal", judges="none", webhook=asked)
    api.client.post(f"/v1/jobs/{posted['job']['id']}/cancel")
    (made, *_) = api.client.get("/v1/webhook-deliveries").json()["items"]
    return f"/v1/webhook-deliveries/{made['id']}"


def finished(api: Any) -> str:
    posted = explanation(api)
    result = api.result()
    spec_sha = api.client.get(f"/v1/gnns/{posted['gnn']}").json()["sha256"]
    set_sha = api.client.get(f"/v1/datasets/{posted['dataset']}").json()["sha256"]
    with api.store.database.reading() as session:
        request = session.scalar(select(Job.request_digest).where(Job.id == posted["job"]["id"]))
    receipt = result.receipt.model_copy(
        update={
            "request_sha256": request,
            "gnn_sha256": spec_sha,
            "dataset_sha256": set_sha,
            "denoiser_sha256": None,
            "witnesses_sha256": None,
        }
    )
    api.finish_explanation(posted, result.model_copy(update={"receipt": receipt}))
    return str(posted["id"])


def failed_denoiser(api: Any) -> str:
    config = {"seed": 99}  # equal GNNs and sets would share the denoiser of another request
    body = {"gnn": api.gnn(), "dataset": api.dataset(), "objective": "class", "config": config}
    denoiser = api.client.post("/v1/denoisers", json=body).json()
    api.client.post(f"/v1/jobs/{denoiser['job']['id']}/cancel")
    return str(denoiser["id"])


def held(api: Any, *, existing: bool = False) -> str:
    path = f"/v1/explanations/{finished(api)}/hold"
    if existing:
        assert api.client.put(path, json={"reason": "a lawsuit"}).is_success
    return path


def key(api: Any) -> str:
    return f"/v1/keys/{api.client.post('/v1/keys', json=KEY).json()['id']}"


def logged_in(api: Any) -> dict[str, str]:
    """Headers of a request that sends the cookie instead of the key."""
    started = api.client.post("/v1/session").json()
    return {"Authorization": "", "X-CSRF-Token": started["csrf_token"]}


def links(api: Any) -> str:
    return f"/v1/explanations/{explanation(api)['id']}/links"


def linked(api: Any) -> str:
    path = links(api)
    return f"{path}/{api.client.post(path, json={}).json()['id']}"


def evaluated(api: Any) -> str:
    evaluation = str(api.evaluation())
    api.finish_evaluation(evaluation)
    return evaluation


def two_evaluated(api: Any) -> dict[str, Any]:
    """The body of a comparison of two evaluations of one GNN."""
    gnn, dataset = api.gnn(), api.dataset()
    ids = [api.evaluation(gnn=gnn, dataset=dataset, seed=seed) for seed in (0, 1)]
    for id_ in ids:
        api.finish_evaluation(id_)
    return {"baseline": ids[0], "candidate": ids[1]}


def canceled_comparison(api: Any) -> str:
    posted = api.client.post("/v1/comparisons", json=two_evaluated(api)).json()
    api.client.post(f"/v1/jobs/{posted['job']['id']}/cancel")
    return str(posted["id"])


def requests(api: Any) -> dict[str, Callable[[], Any]]:
    """A request of each state-changing route that succeeds, by the name of the route."""
    client = api.client
    spec = api.spec().model_dump_json()
    graphs = {"name": "set", "graphs": [api.graph()]}
    return {
        "create_explanation": lambda: client.post(
            "/v1/explanations",
            json={
                "kind": "counterfactual",
                "gnn": api.gnn(),
                "dataset": api.dataset(),
                "graph": api.graph(),
            },
        ),
        "explain_model": lambda: client.post(
            f"/v1/models/{api.gnn()}:explain",
            json={"instances": [api.graph()], "parameters": {"dataset": api.dataset()}},
            headers={"Prefer": "respond-async"},
        ),
        "register_gnn": lambda: client.post(
            "/v1/gnns",
            data={"name": "audited", "spec": spec},
            files={"weights": ("w", api.weights())},
            headers={"Prefer": "respond-async"},
        ),
        "change_gnn": lambda: client.patch(f"/v1/gnns/{api.gnn()}", json={"description": "new"}),
        "delete_gnn": lambda: client.delete(f"/v1/gnns/{api.gnn()}"),
        "set_alias": lambda: client.put(
            f"/v1/gnns/{(gnn := named_gnn(api))['name']}/aliases/audited",
            json={"version": gnn["version"]},
        ),
        "remove_alias": lambda: client.delete(aliased(api)),
        "predict": lambda: client.post(
            f"/v1/gnns/{api.gnn()}/predictions",
            json={"graph": api.graph()},
            headers={"Prefer": "respond-async"},
        ),
        "create_dataset": lambda: client.post("/v1/datasets", json=graphs),
        "create_large": lambda: client.post(
            "/v1/datasets/large?name=web",
            content=json.dumps({"x": [[1.0], [1.0]], "edge_index": [[0], [1]]}),
            headers={"Content-Type": "application/x-ndjson"},
        ),
        "delete_dataset": lambda: client.delete(f"/v1/datasets/{api.dataset()}"),
        "create_denoiser": lambda: client.post(
            "/v1/denoisers",
            json={"gnn": api.gnn(), "dataset": api.dataset(), "objective": "counterfactual"},
        ),
        "cancel_job": lambda: client.post(f"/v1/jobs/{explanation(api)['job']['id']}/cancel"),
        "retry_job": lambda: client.post(f"/v1/jobs/{canceled_job(api)}/retry"),
        "replay_explanation": lambda: client.post(f"/v1/explanations/{finished(api)}/replay"),
        "delete_explanation": lambda: client.delete(f"/v1/explanations/{finished(api)}"),
        "delete_denoiser": lambda: client.delete(f"/v1/denoisers/{failed_denoiser(api)}"),
        "delete_job": lambda: client.delete(f"/v1/jobs/{canceled_prediction(api)}"),
        "put_retention": lambda: client.put("/v1/retention", json={"explanations": 90}),
        "put_hold": lambda: client.put(held(api), json={"reason": "a lawsuit"}),
        "delete_hold": lambda: client.delete(held(api, existing=True)),
        "create_evaluation": lambda: client.post(
            "/v1/evaluations",
            json={
                "gnn": api.gnn(),
                "dataset": (dataset := api.dataset()),
                "test": dataset,
                "explainers": ["search"],
                "metrics": [],
            },
        ),
        "sign_test_result": lambda: client.post(
            f"/v1/evaluations/{evaluated(api)}/test-result",
            json={"threshold": [{"figure": "accuracy", "min": 0}]},
        ),
        "delete_evaluation": lambda: client.delete(f"/v1/evaluations/{evaluated(api)}"),
        "create_comparison": lambda: client.post("/v1/comparisons", json=two_evaluated(api)),
        "delete_comparison": lambda: client.delete(f"/v1/comparisons/{canceled_comparison(api)}"),
        "change_evaluation": lambda: client.patch(
            f"/v1/evaluations/{api.evaluation()}", json={"metadata": {"a": 1}}
        ),
        "change_comparison": lambda: client.patch(
            f"/v1/comparisons/{canceled_comparison(api)}", json={"metadata": {"a": 1}}
        ),
        "create_webhook": lambda: client.post("/v1/webhooks", json={"url": HOOK}),
        "change_explanation": lambda: client.patch(
            f"/v1/explanations/{explanation(api)['id']}", json={"metadata": {"a": 1}}
        ),
        "change_dataset": lambda: client.patch(
            f"/v1/datasets/{api.dataset()}", json={"metadata": {"a": 1}}
        ),
        "change_denoiser": lambda: client.patch(
            f"/v1/denoisers/{api.explanation()['denoiser']}", json={"metadata": {"a": 1}}
        ),
        "change_webhook": lambda: client.patch(webhook(api), json={"enabled": False}),
        "rotate_webhook": lambda: client.post(f"{webhook(api)}/rotate"),
        "delete_webhook": lambda: client.delete(webhook(api)),
        "redeliver": lambda: client.post(f"{delivery(api)}/redeliver"),
        "create_key": lambda: client.post("/v1/keys", json=KEY),
        "rotate_key": lambda: client.post(f"{key(api)}/rotate", json={}),
        "revoke_key": lambda: client.delete(key(api)),
        "log_in": lambda: client.post("/v1/session"),
        "log_out": lambda: client.delete("/v1/session", headers=logged_in(api)),
        "create_link": lambda: client.post(f"{links(api)}", json={}),
        "delete_link": lambda: client.delete(linked(api)),
    }


def test_every_state_changing_route_is_tried(api: Any) -> None:
    """Add a request of a new route above; the next test then checks that it is audited."""
    changing = {
        operation["operationId"]
        for methods in openapi_document()["paths"].values()
        for method, operation in methods.items()
        if method not in READING
    }
    assert changing - CHANGING_NOTHING == set(requests(api))


def test_every_state_changing_route_writes_who_did_what(api: Any) -> None:
    unaudited = {}
    for name, send in requests(api).items():
        answer = send()
        assert answer.is_success, f"{name}: {answer.text}"
        request_id = answer.headers["X-Request-Id"]
        written = entries(api.store.database, request_id=request_id)
        if [(entry.action, entry.outcome) for entry in written] != [(name, Outcome.DONE)]:
            unaudited[name] = [(entry.action, entry.outcome) for entry in written]
        else:
            assert written[0].source is Source.API
    assert unaudited == {}


def test_the_created_resource_is_named(api: Any) -> None:
    posted = explanation(api)
    (entry,) = entries(api.store.database, resource=posted["id"])
    assert entry.action == "create_explanation"


def test_a_repeated_request_and_a_dry_run_change_nothing(api: Any) -> None:
    body = {"gnn": api.gnn(), "dataset": api.dataset(), "objective": "counterfactual"}
    sent = [
        api.client.post("/v1/denoisers", json=body, headers={"Idempotency-Key": "audited-1"})
        for _ in range(2)
    ]
    written = [entries(api.store.database, request_id=a.headers["X-Request-Id"]) for a in sent]
    assert [len(each) for each in written] == [1, 0]
    asked = {"kind": "counterfactual", **body, "graph": api.graph()}
    del asked["objective"]
    dry = api.client.post("/v1/explanations?dry_run=true", json=asked)
    assert dry.status_code == 200
    assert entries(api.store.database, request_id=dry.headers["X-Request-Id"]) == []


@pytest.mark.parametrize(
    ("method", "path", "status", "action"),
    [
        ("DELETE", "/v1/gnns/gnn_unknown", 404, "delete_gnn"),
        ("POST", "/v1/jobs/job_unknown/cancel", 404, "cancel_job"),
    ],
)
def test_refused_actions_are_recorded(
    api: Any, method: str, path: str, status: int, action: str
) -> None:
    refused = api.client.request(method, path)
    assert refused.status_code == status
    (entry,) = entries(api.store.database, request_id=refused.headers["X-Request-Id"])
    assert (entry.action, entry.outcome) == (action, Outcome.REFUSED)
    assert entry.resource == path.split("/")[3]


def test_mistakes_and_unknown_paths_are_no_actions(api: Any) -> None:
    for answer in (
        api.client.post("/v1/explanations", json={"kind": "none"}),
        api.client.post("/v1/unknown"),
        api.client.get("/v1/jobs/job_unknown"),
    ):
        assert answer.is_client_error
        assert entries(api.store.database, request_id=answer.headers["X-Request-Id"]) == []


def test_the_worker_records_each_stored_answer(api: Any) -> None:
    explanation_id = finished(api)
    answer = api.client.get(f"/v1/explanations/{explanation_id}").json()["answers"][0]
    (entry,) = entries(api.store.database, resource=explanation_id, action="store_answer")
    assert (entry.source, entry.content_sha256) == (Source.WORKER, answer["sha256"])
    with api.store.database.reading() as session:
        assert jobs.get(session, answer["job"], api.tenant).state.is_terminal
