"""Every route × no key, a dead key, a missing scope and ids of another tenant.

The routes come from the application: a new route without a row below fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import APIRoute

from d4explain.contracts.job_states import Stage
from d4explain.contracts.scopes import Scope
from d4explain.contracts.webhooks import WebhookEvent
from service.app import ROUTERS
from service.http.principals import OPEN_FOLDERS, OPEN_PATHS, scope_of
from store.access import api_keys
from store.access.api_keys import NewKey
from store.catalogue import gnn_labels
from store.catalogue.data_life.holds import Held
from store.catalogue.evaluations import comparisons, evaluations
from store.database.tables import Replay
from store.database.tables.webhooks import WebhookDelivery
from store.webhooks import endpoints
from tests.conftest import Deployment
from tests.store_rows import create_ready_gnn

if TYPE_CHECKING:
    import httpx

Document = dict[str, Any]


@dataclass(frozen=True)
class Ids:
    """The ids of one tenant, or ids that nobody has."""

    gnn: str
    gnn_name: str
    dataset: str
    denoiser: str
    explanation: str
    job: str
    key: str
    link: str
    webhook: str
    delivery: str
    replay: str
    evaluation: str
    comparison: str


UNKNOWN = Ids(
    *("gnn_00000000000000000000", "nothing", "set_00000000000000000000"),
    *("den_00000000000000000000", "exp_00000000000000000000", "job_00000000000000000000"),
    *("key_00000000000000000000", "lnk_00000000000000000000", "whk_00000000000000000000"),
    *("msg_00000000000000000000", "rpl_00000000000000000000"),
    *("evl_00000000000000000000", "cmp_00000000000000000000"),
)
GRAPH = Deployment.graph()
OBJECTIVE = {"objective": "counterfactual"}


@dataclass(frozen=True)
class Row:
    """One route: the path and body that name things of a tenant."""

    path: Callable[[Ids], str] | None = None  # None: the path names nothing
    body: Callable[[Ids], Document] | None = None
    lists: bool = False  # instead of 404, a list without anything of the other tenant
    filters: tuple[str, ...] = ()  # query parameters of a list that name things
    more: tuple[Callable[[Ids], Document], ...] = field(default=())  # further bodies
    more_paths: tuple[Callable[[Ids], str], ...] = field(default=())

    def requests(self, ids: Ids, mine: Ids) -> list[tuple[str, Document | None]]:
        """Each names one thing of `ids`; what else is needed belongs to `mine`."""
        del mine
        paths = [path(ids) for path in (self.path, *self.more_paths) if path] or [""]
        bodies = [body(ids) for body in (self.body, *self.more) if body] or [None]
        return [(path, body) for path in paths for body in bodies]


def explanation_of(mine: Ids, **foreign: Any) -> Document:
    asked = {"kind": "counterfactual", "gnn": mine.gnn, "dataset": mine.dataset, "graph": GRAPH}
    return {**asked, **foreign}


def evaluation_of(mine: Ids, **foreign: Any) -> Document:
    asked = {"gnn": mine.gnn, "dataset": mine.dataset, "test": mine.dataset, "metrics": []}
    return {**asked, "explainers": ["search"], **foreign}


def comparison_of(mine: Ids, **foreign: Any) -> Document:
    return {"baseline": mine.evaluation, "candidate": mine.evaluation, **foreign}


def hold_of(kind: Held) -> Callable[[Ids], str]:
    return lambda ids: f"/v1/{kind}s/{getattr(ids, kind)}/hold"


OTHER_HOLDS = tuple(hold_of(kind) for kind in Held if kind is not Held.EXPLANATION)
LIST = Row(lists=True)
NAMES_NOTHING = Row()
# Bodies get the foreign ids and, as `MINE`, those of the tenant that asks.
MINE: dict[str, Ids] = {}
ROWS: dict[str, Row] = {
    "GET /v1/gnns": LIST,
    "GET /v1/datasets": LIST,
    "GET /v1/denoisers": Row(lists=True, filters=("gnn",)),
    "GET /v1/explanations": Row(lists=True, filters=("gnn",)),
    "GET /v1/jobs": Row(lists=True, filters=("gnn",)),
    "GET /v1/keys": LIST,
    "GET /v1/webhooks": LIST,
    "GET /v1/webhook-deliveries": Row(lists=True, filters=("webhook",)),
    "POST /v1/gnns": NAMES_NOTHING,
    "POST /v1/datasets/large": NAMES_NOTHING,
    "POST /v1/keys": NAMES_NOTHING,
    "POST /v1/webhooks": NAMES_NOTHING,
    "POST /v1/session": NAMES_NOTHING,
    "GET /v1/session": NAMES_NOTHING,
    "DELETE /v1/session": NAMES_NOTHING,
    "GET /metrics": NAMES_NOTHING,
    "GET /v1/metrics": NAMES_NOTHING,
    "GET /v1/quotas": NAMES_NOTHING,
    "GET /v1/retention": NAMES_NOTHING,
    "PUT /v1/retention": NAMES_NOTHING,
    "GET /v1/signing-keys": NAMES_NOTHING,
    "GET /v1/audit-log": NAMES_NOTHING,
    "GET /v1/audit-log/head": NAMES_NOTHING,
    "GET /v1/explanations/{explanation_id}/receipt": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/receipt"
    ),
    "GET /v1/gnns/{gnn_id}": Row(
        lambda ids: f"/v1/gnns/{ids.gnn}",
        more_paths=(lambda ids: f"/v1/gnns/{ids.gnn_name}",),
    ),
    "PATCH /v1/gnns/{gnn_id}": Row(
        lambda ids: f"/v1/gnns/{ids.gnn}", lambda _: {"description": "mine now"}
    ),
    "DELETE /v1/gnns/{gnn_id}": Row(lambda ids: f"/v1/gnns/{ids.gnn}"),
    "POST /v1/gnns/{gnn_id}/predictions": Row(
        lambda ids: f"/v1/gnns/{ids.gnn}/predictions", lambda _: {"graph": GRAPH}
    ),
    "PUT /v1/gnns/{name}/aliases/{alias}": Row(
        lambda ids: f"/v1/gnns/{ids.gnn_name}/aliases/production",
        lambda ids: {"gnn": ids.gnn},
        more=(lambda _: {"version": 1},),
    ),
    "DELETE /v1/gnns/{name}/aliases/{alias}": Row(
        lambda ids: f"/v1/gnns/{ids.gnn_name}/aliases/production"
    ),
    "POST /v1/datasets": Row(
        lambda _: "/v1/datasets",
        lambda ids: {"name": "a set", "gnn": ids.gnn, "graphs": [{"smiles": "CC"}]},
    ),
    "GET /v1/datasets/{dataset_id}": Row(lambda ids: f"/v1/datasets/{ids.dataset}"),
    "DELETE /v1/datasets/{dataset_id}": Row(lambda ids: f"/v1/datasets/{ids.dataset}"),
    "POST /v1/denoisers": Row(
        lambda _: "/v1/denoisers",
        lambda ids: {**OBJECTIVE, "gnn": ids.gnn, "dataset": MINE["ids"].dataset},
        more=(lambda ids: {**OBJECTIVE, "gnn": MINE["ids"].gnn, "dataset": ids.dataset},),
    ),
    "GET /v1/denoisers/{denoiser_id}": Row(lambda ids: f"/v1/denoisers/{ids.denoiser}"),
    "POST /v1/explanations": Row(
        lambda _: "/v1/explanations",
        lambda ids: explanation_of(MINE["ids"], gnn=ids.gnn),
        more=(
            lambda ids: explanation_of(MINE["ids"], dataset=ids.dataset),
            lambda ids: explanation_of(MINE["ids"], denoiser=ids.denoiser),
            lambda ids: explanation_of(MINE["ids"], judges=[ids.gnn]),
        ),
    ),
    "GET /v1/evaluations": Row(lists=True, filters=("gnn",)),
    "POST /v1/evaluations": Row(
        lambda _: "/v1/evaluations",
        lambda ids: evaluation_of(MINE["ids"], gnn=ids.gnn),
        more=(
            lambda ids: evaluation_of(MINE["ids"], dataset=ids.dataset),
            lambda ids: evaluation_of(MINE["ids"], test=ids.dataset),
            lambda ids: evaluation_of(MINE["ids"], explainers=["d4"], denoiser=ids.denoiser),
            lambda ids: evaluation_of(MINE["ids"], judges=[ids.gnn]),
        ),
    ),
    "GET /v1/evaluations/{evaluation_id}": Row(lambda ids: f"/v1/evaluations/{ids.evaluation}"),
    "GET /v1/evaluations/{evaluation_id}/rows": Row(
        lambda ids: f"/v1/evaluations/{ids.evaluation}/rows",
        more_paths=(
            lambda ids: f"/v1/evaluations/{ids.evaluation}/rows?format=csv",
            lambda ids: f"/v1/evaluations/{ids.evaluation}/rows?format=parquet",
        ),
    ),
    "PATCH /v1/evaluations/{evaluation_id}": Row(
        lambda ids: f"/v1/evaluations/{ids.evaluation}", lambda _: {"metadata": {"a": 1}}
    ),
    "PATCH /v1/comparisons/{comparison_id}": Row(
        lambda ids: f"/v1/comparisons/{ids.comparison}", lambda _: {"metadata": {"a": 1}}
    ),
    "GET /v1/evaluations/{evaluation_id}/report": Row(
        lambda ids: f"/v1/evaluations/{ids.evaluation}/report"
    ),
    "GET /v1/evaluations/{evaluation_id}/result": Row(
        lambda ids: f"/v1/evaluations/{ids.evaluation}/result"
    ),
    "POST /v1/evaluations/{evaluation_id}/test-result": Row(
        lambda ids: f"/v1/evaluations/{ids.evaluation}/test-result",
        lambda _: {"threshold": [{"figure": "validity", "explainer": "search", "min": 0}]},
    ),
    "DELETE /v1/evaluations/{evaluation_id}": Row(lambda ids: f"/v1/evaluations/{ids.evaluation}"),
    "GET /v1/comparisons": Row(lists=True, filters=("evaluation",)),
    "POST /v1/comparisons": Row(
        lambda _: "/v1/comparisons",
        lambda ids: comparison_of(MINE["ids"], baseline=ids.evaluation),
        more=(
            lambda ids: comparison_of(MINE["ids"], candidate=ids.evaluation),
            lambda ids: comparison_of(MINE["ids"], retrained=[ids.evaluation]),
        ),
    ),
    "GET /v1/comparisons/{comparison_id}": Row(lambda ids: f"/v1/comparisons/{ids.comparison}"),
    "DELETE /v1/comparisons/{comparison_id}": Row(lambda ids: f"/v1/comparisons/{ids.comparison}"),
    "GET /v1/explanations/{explanation_id}": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}?format=svg"
    ),
    "GET /v1/explanations/{explanation_id}/answers/{stage}": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/answers/final"
    ),
    "POST /v1/explanations/{explanation_id}/replay": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/replay"
    ),
    "GET /v1/explanations/{explanation_id}/replays": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/replays"
    ),
    "GET /v1/replays/{replay_id}": Row(lambda ids: f"/v1/replays/{ids.replay}"),
    "GET /v1/explanations/{explanation_id}/links": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/links"
    ),
    "POST /v1/explanations/{explanation_id}/links": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/links", lambda _: {"seconds": 60}
    ),
    "DELETE /v1/explanations/{explanation_id}/links/{link_id}": Row(
        lambda ids: f"/v1/explanations/{MINE['ids'].explanation}/links/{ids.link}"
    ),
    "GET /v1/datasets/{dataset_id}/graphs": Row(lambda ids: f"/v1/datasets/{ids.dataset}/graphs"),
    "POST /v1/gnns/{gnn_id}/graph-previews": Row(
        lambda ids: f"/v1/gnns/{ids.gnn}/graph-previews", lambda _: {"graph": GRAPH}
    ),
    "POST /v1/explanations/{explanation_id}/what-if": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/what-if",
        lambda _: {"toggles": [["a", "b"]]},
    ),
    "GET /v1/explanations/{explanation_id}/nearest": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/nearest"
    ),
    "PATCH /v1/explanations/{explanation_id}": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}", lambda _: {"metadata": {"a": 1}}
    ),
    "PATCH /v1/datasets/{dataset_id}": Row(
        lambda ids: f"/v1/datasets/{ids.dataset}", lambda _: {"metadata": {"a": 1}}
    ),
    "PATCH /v1/denoisers/{denoiser_id}": Row(
        lambda ids: f"/v1/denoisers/{ids.denoiser}", lambda _: {"metadata": {"a": 1}}
    ),
    "DELETE /v1/explanations/{explanation_id}": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}"
    ),
    "GET /v1/explanations/{explanation_id}/report": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/report"
    ),
    "GET /v1/models/{model_name}": Row(lambda ids: f"/v1/models/{ids.gnn}"),
    "POST /v1/models/{model_name}:explain": Row(
        lambda ids: f"/v1/models/{ids.gnn}:explain",
        lambda _: {"instances": [GRAPH], "parameters": {"dataset": MINE["ids"].dataset}},
    ),
    "GET /v1/explanations/{explanation_id}/trustyai": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/trustyai"
    ),
    "GET /embed/explanations/{explanation_id}": Row(
        lambda ids: f"/embed/explanations/{ids.explanation}"
    ),
    "GET /v1/explanations/{explanation_id}/letter": Row(
        lambda ids: f"/v1/explanations/{ids.explanation}/letter"
    ),
    "DELETE /v1/denoisers/{denoiser_id}": Row(lambda ids: f"/v1/denoisers/{ids.denoiser}"),
    "DELETE /v1/jobs/{job_id}": Row(lambda ids: f"/v1/jobs/{ids.job}"),
    "GET /v1/holds": Row(lists=True),
    "GET /v1/{noun}/{resource_id}/hold": Row(hold_of(Held.EXPLANATION), more_paths=OTHER_HOLDS),
    "PUT /v1/{noun}/{resource_id}/hold": Row(
        hold_of(Held.EXPLANATION), lambda _: {"reason": "an audit"}, more_paths=OTHER_HOLDS
    ),
    "DELETE /v1/{noun}/{resource_id}/hold": Row(hold_of(Held.EXPLANATION), more_paths=OTHER_HOLDS),
    "GET /v1/jobs/{job_id}": Row(lambda ids: f"/v1/jobs/{ids.job}"),
    "GET /v1/jobs/{job_id}/events": Row(lambda ids: f"/v1/jobs/{ids.job}/events"),
    "POST /v1/jobs/{job_id}/cancel": Row(lambda ids: f"/v1/jobs/{ids.job}/cancel"),
    "POST /v1/jobs/{job_id}/retry": Row(lambda ids: f"/v1/jobs/{ids.job}/retry"),
    "GET /v1/keys/{key_id}": Row(lambda ids: f"/v1/keys/{ids.key}"),
    "DELETE /v1/keys/{key_id}": Row(lambda ids: f"/v1/keys/{ids.key}"),
    "POST /v1/keys/{key_id}/rotate": Row(lambda ids: f"/v1/keys/{ids.key}/rotate", lambda _: {}),
    "GET /v1/webhooks/{webhook_id}": Row(lambda ids: f"/v1/webhooks/{ids.webhook}"),
    "PATCH /v1/webhooks/{webhook_id}": Row(
        lambda ids: f"/v1/webhooks/{ids.webhook}", lambda _: {"enabled": False}
    ),
    "DELETE /v1/webhooks/{webhook_id}": Row(lambda ids: f"/v1/webhooks/{ids.webhook}"),
    "POST /v1/webhooks/{webhook_id}/rotate": Row(lambda ids: f"/v1/webhooks/{ids.webhook}/rotate"),
    "GET /v1/webhook-deliveries/{delivery_id}": Row(
        lambda ids: f"/v1/webhook-deliveries/{ids.delivery}"
    ),
    "POST /v1/webhook-deliveries/{delivery_id}/redeliver": Row(
        lambda ids: f"/v1/webhook-deliveries/{ids.delivery}/redeliver"
    ),
}
# Also routes that the OpenAPI document does not list, such as views for frames.
ROUTES = {
    f"{method} {route.path}": route
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    and route.path not in OPEN_PATHS
    and not route.path.startswith(OPEN_FOLDERS)
    for method in route.methods
}


# What a link to an explanation opens without a key.
LINKED = {
    "GET /v1/explanations/{explanation_id}",
    "GET /v1/explanations/{explanation_id}/answers/{stage}",
    "GET /v1/explanations/{explanation_id}/report",
    "GET /v1/explanations/{explanation_id}/letter",
    "GET /embed/explanations/{explanation_id}",
}


@dataclass
class Tenancy:
    """Two tenants in one deployment; `ask` sends requests with a key of one of them."""

    app: Any
    client: httpx.Client
    mine: Deployment
    my_ids: Ids
    their_ids: Ids
    keys: dict[str, NewKey]  # of this tenant, by what is special about them
    clients: int = 0

    def ask(self, operation: str, path: str, body: Document | None, key: str | None) -> Any:
        headers = {} if key is None else {"Authorization": f"Bearer {self.keys[key].text}"}
        method, template = operation.split(" ")
        sent = {} if body is None else {"json": body}
        client = self.client
        if key in ("revoked", "expired"):  # from an address of its own: wrong keys are slowed
            number = self.clients = self.clients + 1
            client = type(client)(self.app, "http://127.0.0.1", client=(f"10.0.{number}.1", 1))
        return client.request(method, path or template, headers=headers, **sent)


@pytest.fixture(scope="module")
def tenancy(deployed: Callable[..., Deployment]) -> Iterator[Tenancy]:
    root = deployed()
    app = root.client.app
    scopes = {"everything": list(Scope)}
    scopes |= {f"without {scope}": [one for one in Scope if one is not scope] for scope in Scope}
    with root.store.database.transaction() as session:
        keys = {
            name: api_keys.create(session, tenant="mine", name=name, scopes=some)
            for name, some in {**scopes, "revoked": list(Scope)}.items()
        }
        keys["expired"] = api_keys.create(
            session, tenant="mine", name="expired", scopes=list(Scope), seconds=-1
        )
        api_keys.revoke(session, keys["revoked"].row.id, "mine")
        theirs = api_keys.create(session, tenant="theirs", name="theirs", scopes=list(Scope))
    with ExitStack() as opened:

        def deployment(key: NewKey, tenant: str) -> Deployment:
            headers = {"Authorization": f"Bearer {key.text}"}
            client = type(root.client)(app, "http://127.0.0.1", headers=headers)
            opened.callback(client.close)
            return Deployment(root.store, client, tenant)

        mine = deployment(keys["everything"], "mine")
        my_ids = filled(mine, keys["everything"].row.id)
        their_ids = filled(deployment(theirs, "theirs"), theirs.row.id)
        MINE["ids"] = my_ids
        yield Tenancy(app, root.client, mine, my_ids, their_ids, keys)


@pytest.fixture(scope="module")
def token(tenancy: Tenancy) -> str:
    """Of a link to an explanation of this tenant."""
    path = f"/v1/explanations/{tenancy.my_ids.explanation}/links"
    url = tenancy.mine.client.post(path, json={"seconds": 600}).json()["url"]
    return str(url.partition("token=")[2])


def filled(deployment: Deployment, key_id: str) -> Ids:
    """Creates one of everything for a tenant."""
    gnn = deployment.gnn()
    dataset = deployment.dataset()
    posted = deployment.explanation(gnn=gnn, dataset=dataset)
    deployment.finish_explanation(posted)
    client, tenant = deployment.client, deployment.tenant
    link = client.post(f"/v1/explanations/{posted['id']}/links", json={"seconds": 600}).json()
    held = client.put(f"/v1/explanations/{posted['id']}/hold", json={"reason": "an audit"})
    assert held.is_success, held.text
    stored = deployment.store.artifacts.of(tenant).put(b"weights or an answer")
    with deployment.store.database.transaction() as session:
        named = create_ready_gnn(session, stored, name=f"GNN of {tenant}", tenant=tenant)
        gnn_labels.set_alias(session, "production", named)
        hook = endpoints.create(session, url="https://hooks.example.org/x", tenant=tenant)
        delivery = WebhookDelivery(
            id=f"msg_{tenant}",
            tenant_id=tenant,
            webhook_id=hook.id,
            fair_group="x",
            event=WebhookEvent.EXPLANATION_SUCCEEDED,
            job_id=posted["job"]["id"],
            body="{}",
        )
        replay = Replay(
            id=f"rpl_{tenant}",
            tenant_id=tenant,
            explanation_id=posted["id"],
            stage=Stage.FINAL,
            answer_digest=stored,
            job_id=posted["job"]["id"],
        )
        session.add_all((delivery, replay))
    evaluation = deployment.evaluation(gnn=gnn, dataset=dataset)
    deployment.finish_evaluation(evaluation)
    with deployment.store.database.transaction() as session:
        row = evaluations.get(session, evaluation, tenant)
        comparison = comparisons.create(
            session, baseline=row, candidate=row, request_digest=stored, seed=0
        ).id
    return Ids(
        gnn=gnn,
        gnn_name=named.name,
        dataset=dataset,
        denoiser=posted["denoiser"],
        explanation=posted["id"],
        job=posted["job"]["id"],
        key=key_id,
        link=link["id"],
        webhook=hook.id,
        delivery=delivery.id,
        replay=replay.id,
        evaluation=evaluation,
        comparison=comparison,
    )


def test_every_route_has_a_row() -> None:
    assert set(ROWS) == set(ROUTES)


def test_every_route_needs_a_scope_or_says_why_not() -> None:
    assert {name for name, route in ROUTES.items() if scope_of(route) is None} == {
        "POST /v1/session",  # about the key itself
        "GET /v1/session",
        "DELETE /v1/session",
    }


@pytest.mark.parametrize("operation", ROWS)
@pytest.mark.parametrize("key", [None, "revoked", "expired"])
def test_no_key_and_dead_keys_get_401(tenancy: Tenancy, operation: str, key: str | None) -> None:
    path, body = ROWS[operation].requests(tenancy.my_ids, tenancy.my_ids)[0]
    before = tenancy.mine.written()
    answer = tenancy.ask(operation, path, body, key)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert tenancy.mine.written() == before


@pytest.mark.parametrize("operation", ROWS)
def test_a_missing_scope_gets_403_that_names_it(tenancy: Tenancy, operation: str) -> None:
    scope = scope_of(ROUTES[operation])
    if scope is None:
        pytest.skip("any key will do")
    path, body = ROWS[operation].requests(tenancy.my_ids, tenancy.my_ids)[0]
    before = tenancy.mine.written()
    answer = tenancy.ask(operation, path, body, f"without {scope}")
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:d4explain:problem:missing-scope"
    assert f"needs the scope {scope.value};" in answer.json()["detail"]
    assert tenancy.mine.written() == before


@pytest.mark.parametrize("operation", [name for name, row in ROWS.items() if row.path])
def test_foreign_ids_are_answered_like_unknown_ones(tenancy: Tenancy, operation: str) -> None:
    row, before = ROWS[operation], tenancy.mine.written()
    foreign = row.requests(tenancy.their_ids, tenancy.my_ids)
    unknown = row.requests(UNKNOWN, tenancy.my_ids)
    for (path, body), (unknown_path, unknown_body) in zip(foreign, unknown, strict=True):
        answer = tenancy.ask(operation, path, body, "everything")
        expected = tenancy.ask(operation, unknown_path, unknown_body, "everything")
        assert answer.status_code == 404, answer.text
        assert shape(answer, tenancy.their_ids) == shape(expected, UNKNOWN)
    assert tenancy.mine.written() == before


@pytest.mark.parametrize("operation", ROWS)
def test_a_link_opens_its_explanation_and_no_other_route(
    tenancy: Tenancy, operation: str, token: str
) -> None:
    path, body = ROWS[operation].requests(tenancy.my_ids, tenancy.my_ids)[0]
    before = tenancy.mine.written()
    template = path or operation.split(" ")[1]
    linked = f"{template}{'&' if '?' in template else '?'}token={token}"
    answer = tenancy.ask(operation, linked, body, None)
    if operation in LINKED:
        assert answer.status_code == 200, answer.text
    else:
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:d4explain:problem:link-opens-one-explanation"
    assert tenancy.mine.written() == before


def shape(answer: Any, ids: Ids) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers, without the ids that were asked for."""
    text = answer.text
    for name in vars(ids).values():
        text = text.replace(json.dumps(name)[1:-1], "…")
    changing = ("content-length", "x-request-id")
    headers = {name: value for name, value in answer.headers.items() if name not in changing}
    return answer.status_code, text, headers


@pytest.mark.parametrize("accepted", ["*/*", "application/json"])
@pytest.mark.parametrize(
    "operation", [name for name, row in ROWS.items() if row.path and name.startswith("GET ")]
)
def test_a_tenant_reads_what_is_its_own(tenancy: Tenancy, operation: str, accepted: str) -> None:
    """Its artifacts are in a folder of their own."""
    (path, _) = ROWS[operation].requests(tenancy.my_ids, tenancy.my_ids)[0]
    answer = tenancy.mine.client.get(path, headers={"Accept": accepted})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("operation", [name for name, row in ROWS.items() if row.lists])
def test_lists_show_nothing_of_another_tenant(tenancy: Tenancy, operation: str) -> None:
    foreign = {value for name, value in vars(tenancy.their_ids).items() if name != "gnn_name"}
    answer = tenancy.ask(operation, "", None, "everything")
    assert answer.status_code == 200
    assert answer.json()["items"]
    assert not any(id_ in answer.text for id_ in foreign)
    path = operation.split(" ")[1]
    for name in ROWS[operation].filters:
        for asked in (getattr(tenancy.their_ids, name), getattr(UNKNOWN, name)):
            filtered = tenancy.ask(operation, f"{path}?{name}={asked}", None, "everything")
            assert (filtered.status_code, filtered.json()["items"]) == (200, [])


def test_metrics_name_no_tenant_and_nothing_of_one(tenancy: Tenancy) -> None:
    text = tenancy.ask("GET /metrics", "", None, "everything").text
    assert "d4_jobs" in text
    assert not re.search(r"tenant|theirs|mine", text)
    assert not any(id_ in text for id_ in vars(tenancy.their_ids).values())


def test_equal_content_of_tenants_is_numbered_and_named_apart(tenancy: Tenancy) -> None:
    """Both tenants hold the same GNN, set and result; neither counts the other's versions."""
    for noun, id_ in (("gnns", tenancy.my_ids.gnn), ("datasets", tenancy.my_ids.dataset)):
        found = tenancy.mine.client.get(f"/v1/{noun}/{id_}").json()
        assert found["version"] == 1
    assert tenancy.my_ids.denoiser != tenancy.their_ids.denoiser


def test_an_idempotency_key_of_another_tenant_is_a_new_one(tenancy: Tenancy) -> None:
    theirs = {"Idempotency-Key": "shared-by-accident"}
    graphs = [GRAPH]
    first = tenancy.mine.client.post(
        "/v1/datasets", json={"name": "one", "graphs": graphs}, headers=theirs
    )
    with tenancy.mine.store.database.transaction() as session:
        other = api_keys.create(session, tenant="third", name="x", scopes=list(Scope))
    second = tenancy.client.post(
        "/v1/datasets",
        json={"name": "two", "graphs": graphs},
        headers={**theirs, "Authorization": f"Bearer {other.text}"},
    )
    assert (first.status_code, second.status_code) == (201, 201), first.text
    assert "idempotency-replayed" not in second.headers
    assert second.json()["version"] == 1


def test_waiting_and_events_of_my_job_show_nothing_of_others(tenancy: Tenancy) -> None:
    """A job that waits tells of the trainings before it, which may be those of others."""
    waiting = tenancy.mine.explanation(
        gnn=tenancy.my_ids.gnn, dataset=tenancy.my_ids.dataset, denoiser={"steps": 77}
    )
    shown = tenancy.mine.client.get(waiting["links"]["job"]).text
    shown += tenancy.mine.client.get("/v1/jobs").text
    tenancy.mine.client.post(f"{waiting['links']['job']}/cancel")
    shown += tenancy.mine.client.get(waiting["links"]["events"]).text
    assert waiting["job"]["id"] in shown
    foreign = {value for name, value in vars(tenancy.their_ids).items() if name != "gnn_name"}
    assert not any(id_ in shown for id_ in foreign)
