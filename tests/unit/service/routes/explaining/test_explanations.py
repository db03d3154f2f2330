from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from d4explain.contracts.requests import ClassRequest, CounterfactualRequest, PredictionRequest
from d4explain.contracts.scopes import DEFAULT_TENANT
from store.catalogue import denoisers, explanations


def job_request(api, explanation_id):
    """The request that the worker reads."""
    with api.store.database.reading() as session:
        row = explanations.get(session, explanation_id, tenant=DEFAULT_TENANT)
    return json.loads(api.store.artifacts.of("default").get(row.request_digest))


def test_an_explanation_without_a_denoiser_waits_for_its_training(api):
    posted = api.explanation(seed=7)
    assert posted["state"] == "queued"
    assert posted["result"] is None
    training = posted["job"]["waiting_for"]
    assert api.queued("train") == [training]

    again = api.client.get(f"/v1/jobs/{training}").json()
    assert again["subject"]["denoiser"] == posted["denoiser"]

    api.finish(training)
    provisional = posted["answers"][0]["job"]
    waiting = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert waiting["job"]["waiting_for"] == provisional

    api.finish(provisional)
    freed = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert freed["job"]["waiting_for"] is None

    api.finish(posted["job"]["id"], api.result())
    done = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert done["state"] == "succeeded"
    assert done["result"] == api.result().model_dump(mode="json")
    assert done["summary"] == {"found": 1}


def test_accepted_work_has_a_location(api):
    body = {"kind": "class", "gnn": api.gnn(), "dataset": api.dataset(), "target_class": 1}
    answer = api.client.post("/v1/explanations", json=body)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/explanations/{answer.json()['id']}"
    assert int(answer.headers["retry-after"]) >= 1
    assert "preference-applied" not in answer.headers


def test_the_worker_reads_positions_and_the_callers_ids(api):
    graphs = [
        {
            "nodes": [{"id": "z"}, {"id": 5}, {"id": "a"}],
            "links": [{"source": "a", "target": "z"}, {"source": 5, "target": "z", "weight": 1}],
            "directed": False,
        },
        {"edge_index": [[1, 0, 2, 1], [0, 1, 1, 2]], "num_nodes": 3, "node_ids": ["p", "q", "r"]},
    ]
    posted = api.explanation(
        graph=None,
        graphs=graphs,
        target_class=1,
        alternatives=2,
        explainer="d4-paper",
        time_budget=30,
        seed=11,
        constraints={
            "max_edits": 4,
            "actions": "remove",
            "keep_connected": True,
            "frozen_nodes": [["a"], []],
            "frozen_edges": [[[5, "z"]], [["r", "q"]]],
        },
    )
    request = CounterfactualRequest.model_validate(job_request(api, posted["id"]))

    first, second = request.graphs
    assert (first.node_ids, first.edges, first.x) == (["z", 5, "a"], [(0, 1), (0, 2)], [[1.0]] * 3)
    assert (second.node_ids, second.edges) == (["p", "q", "r"], [(0, 1), (1, 2)])
    assert request.constraints.frozen_nodes == [[2], []]
    assert request.constraints.frozen_edges == [[(0, 1)], [(1, 2)]]
    assert request.constraints.max_edits == 4
    assert request.constraints.actions == "remove"
    assert request.constraints.keep_connected
    assert (request.target_class, request.alternatives, request.explainer) == (1, 2, "d4-paper")
    assert (request.time_budget, request.seed) == (30.0, 11)


def test_constraints_of_a_single_graph_are_flat_lists(api):
    constraints = {"frozen_nodes": ["d"], "frozen_edges": [["b", "a"]]}
    posted = api.explanation(constraints=constraints)
    request = CounterfactualRequest.model_validate(job_request(api, posted["id"]))
    assert request.constraints.frozen_nodes == [[3]]
    assert request.constraints.frozen_edges == [[(0, 1)]]


def test_a_class_request_gets_its_defaults(api):
    body = {
        "kind": "class",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "target_class": 1,
        "node_count": 6,
        "regularisers": {"sparsity": 0.5},
    }
    posted = api.client.post("/v1/explanations", json=body).json()
    request = ClassRequest.model_validate(job_request(api, posted["id"]))
    assert request == ClassRequest(target_class=1, node_count=6, regularisers={"sparsity": 0.5})
    assert posted["job"]["kind"] == "class"


def test_presets_reach_the_worker(api):
    gnn, dataset = api.gnn(), api.dataset()
    posted = api.explanation(gnn=gnn, dataset=dataset, preset="fast")
    assert CounterfactualRequest.model_validate(job_request(api, posted["id"])).preset == "fast"
    # d4-paper ignores presets but accepts the default
    posted = api.explanation(gnn=gnn, dataset=dataset, explainer="d4-paper", preset="balanced")
    assert CounterfactualRequest.model_validate(job_request(api, posted["id"])).preset == "balanced"

    body = {"kind": "class", "gnn": gnn, "dataset": dataset, "target_class": 1}
    body |= {"explainer": "d4-paper", "preset": "thorough", "steps": 7, "candidates": None}
    posted = api.client.post("/v1/explanations", json=body).json()
    request = ClassRequest.model_validate(job_request(api, posted["id"]))
    assert (request.preset, request.steps, request.candidates) == ("thorough", 7, None)


def test_equal_requests_share_one_training(api):
    gnn, dataset = api.gnn(), api.dataset()
    first = api.explanation(gnn=gnn, dataset=dataset)
    second = api.explanation(gnn=gnn, dataset=dataset, seed=3)
    other = api.explanation(gnn=gnn, dataset=dataset, denoiser={"steps": 5})
    by_id = api.explanation(gnn=gnn, dataset=dataset, denoiser=other["denoiser"])

    assert first["denoiser"] == second["denoiser"] != other["denoiser"] == by_id["denoiser"]
    assert first["job"]["waiting_for"] == second["job"]["waiting_for"]
    assert len(api.queued("train")) == 2

    body = {"gnn": gnn, "dataset": dataset, "objective": "counterfactual"}
    joined = api.client.post("/v1/denoisers", json=body)
    assert joined.status_code == 202
    assert joined.headers["location"] == f"/v1/denoisers/{first['denoiser']}"
    api.finish(first["job"]["waiting_for"])
    ready = api.client.post("/v1/denoisers", json=body)
    assert ready.status_code == 200
    assert ready.json()["state"] == "ready"
    assert ready.json()["metrics"] == {"loss": 0.1}


def test_prefer_wait_answers_with_the_result(api):
    gnn, dataset = api.gnn(), api.dataset()
    ready = api.explanation(gnn=gnn, dataset=dataset)
    api.finish_explanation(ready)

    worker = api.soon(
        lambda: api.finish(api.queued("counterfactual")[0], api.result()),
        when=lambda: bool(api.queued("counterfactual")),
    )
    body = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": api.graph()}
    answer = api.client.post("/v1/explanations", json=body, headers={"Prefer": "wait=20"})
    worker.join()
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.json()["result"]["summary"]["found_count"] == 1


def test_waiting_ends_after_the_requested_time(api):
    body = {"kind": "class", "gnn": api.gnn(), "dataset": api.dataset(), "target_class": 0}
    answer = api.client.post("/v1/explanations", json=body, headers={"Prefer": "wait=1"})
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=1"
    assert 0.9 < answer.elapsed.total_seconds() < 5


def test_a_failed_training_fails_an_explanation_without_an_answer(api):
    # There is no provisional answer beside the paper's method.
    body = {
        "kind": "class",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "target_class": 1,
        "explainer": "d4-paper",
        "denoiser": {"steps": 10},
    }
    posted = api.client.post("/v1/explanations", json=body).json()
    canceled = api.client.post(f"/v1/jobs/{posted['job']['waiting_for']}/cancel")
    assert canceled.status_code == 200

    failed = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert failed["state"] == "failed"
    assert failed["job"]["error"]["type"] == "dependency"
    assert posted["job"]["waiting_for"] in failed["job"]["error"]["message"]

    retried = api.client.post(failed["job"]["links"]["retry"])
    assert retried.status_code == 202
    again = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert again["job"]["id"] == retried.json()["id"]
    assert again["state"] == "queued"


def test_predictions_are_in_the_first_response(api):
    gnn = api.gnn()
    result = {
        "kind": "prediction",
        "predictions": [{"predicted_class": 1, "class_name": "b", "probabilities": [0.2, 0.8]}],
    }
    worker = api.soon(
        lambda: api.finish(api.queued("predict")[0], result),
        when=lambda: bool(api.queued("predict")),
    )
    answer = api.client.post(f"/v1/gnns/{gnn}/predictions", json={"graph": api.graph()})
    worker.join()
    assert answer.status_code == 200
    assert answer.json()["predictions"] == result["predictions"]
    assert answer.json()["job"]["result"] == result


def test_slow_predictions_get_202_with_a_location(api):
    gnn = api.gnn()
    answer = api.client.post(
        f"/v1/gnns/{gnn}/predictions",
        json={"graphs": [api.graph()] * 2},
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 202
    job = answer.json()["job"]
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert answer.json()["predictions"] is None
    claim = api.claim(job["id"])
    request = PredictionRequest.model_validate_json(
        api.store.artifacts.of("default").get(claim.request_digest)
    )
    assert [graph.node_ids for graph in request.graphs] == [list("abcd")] * 2


@pytest.mark.parametrize("route", ["datasets", "explanations", "denoisers", "predictions"])
def test_the_same_key_and_body_give_the_same_resource(api, route):
    gnn, dataset = api.gnn(), api.dataset()
    address, body, other = {
        "datasets": (
            "/v1/datasets",
            {"name": "n", "graphs": [api.graph()]},
            {"name": "m", "graphs": [api.graph()]},
        ),
        "explanations": (
            "/v1/explanations",
            {"kind": "class", "gnn": gnn, "dataset": dataset, "target_class": 0},
            {"kind": "class", "gnn": gnn, "dataset": dataset, "target_class": 1},
        ),
        "denoisers": (
            "/v1/denoisers",
            {"gnn": gnn, "dataset": dataset, "objective": "class"},
            {"gnn": gnn, "dataset": dataset, "objective": "counterfactual"},
        ),
        "predictions": (
            f"/v1/gnns/{gnn}/predictions",
            {"graph": api.graph()},
            {"graphs": [api.graph()]},
        ),
    }[route]
    headers = {"Idempotency-Key": "once", "Prefer": "respond-async"}

    def post(document):
        return api.client.post(address, json=document, headers=headers)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, [body] * 8))
    assert {answer.status_code for answer in answers} <= {201, 202}
    resources = [answer.json() for answer in answers]
    assert all(resource == resources[0] for resource in resources)
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 7

    written = api.written()
    rejected = post(other)
    assert rejected.status_code == 422
    assert rejected.json()["type"].endswith("idempotency-mismatch")
    assert api.written() == written

    elsewhere = api.client.post(
        "/v1/datasets", json={"name": "x", "graphs": [api.graph()]}, headers=headers
    )
    assert elsewhere.status_code == 422


def test_a_known_etag_gets_304(api):
    posted = api.explanation()
    for address in (
        f"/v1/explanations/{posted['id']}",
        f"/v1/jobs/{posted['job']['id']}",
        f"/v1/gnns/{posted['gnn']}",
        f"/v1/datasets/{posted['dataset']}",
        f"/v1/denoisers/{posted['denoiser']}",
    ):
        first = api.client.get(address)
        assert first.headers["cache-control"] == "private, no-cache"  # may be kept, but not trusted
        again = api.client.get(address, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]

    known = api.client.get(f"/v1/explanations/{posted['id']}").headers["etag"]
    api.finish_explanation(posted)
    changed = api.client.get(
        f"/v1/explanations/{posted['id']}", headers={"If-None-Match": f'"x", W/{known}'}
    )
    assert changed.status_code == 200
    assert changed.headers["etag"] != known


def test_lists_filter(api):
    first = api.explanation()
    second = api.client.post(
        "/v1/explanations",
        json={"kind": "class", "gnn": first["gnn"], "dataset": first["dataset"], "target_class": 0},
    ).json()
    third = api.explanation()

    def ids(query):
        items = api.client.get(f"/v1/explanations{query}").json()["items"]
        assert all("result" not in item for item in items)
        return [item["id"] for item in items]

    assert ids("") == [third["id"], second["id"], first["id"]]
    assert ids("?kind=class") == [second["id"]]
    assert ids(f"?gnn={first['gnn']}") == [second["id"], first["id"]]
    denoisers = api.client.get(f"/v1/denoisers?gnn={first['gnn']}").json()["items"]
    assert first["denoiser"] in [denoiser["id"] for denoiser in denoisers]


def test_a_reference_set_in_use_is_not_deleted(api):
    posted = api.explanation()
    assert api.client.delete(f"/v1/datasets/{posted['dataset']}").status_code == 409
    api.finish_explanation(posted)
    assert api.client.delete(f"/v1/datasets/{posted['dataset']}").status_code == 204
    assert api.client.get(f"/v1/datasets/{posted['dataset']}").status_code == 404
    kept = api.client.get(f"/v1/explanations/{posted['id']}").json()
    assert kept["result"]["summary"]["found_count"] == 1


def test_a_reference_set_has_statistics(api):
    graphs = [
        {"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}], "label": 2},
        {"edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "y": [0]},
        {"nodes": [{"id": "alone"}], "edges": []},
    ]
    answer = api.client.post("/v1/datasets", json={"name": "mixed", "graphs": graphs})
    assert answer.status_code == 201
    found = answer.json()
    assert answer.headers["location"] == f"/v1/datasets/{found['id']}"
    assert (found["graph_count"], found["features"], found["max_nodes"]) == (3, 1, 3)
    assert found["label_counts"] == {"0": 1, "2": 1}
    assert (found["mean_nodes"], found["mean_edges"]) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("denoiser", "recipe"),
    [(None, "paper"), ({"steps": 5}, "paper"), ({"recipe": "default", "steps": 5}, "default")],
)
def test_d4_paper_trains_the_papers_recipe_unless_another_is_named(api, denoiser, recipe):
    posted = api.explanation(explainer="d4-paper", denoiser=denoiser)
    trained = api.client.get(f"/v1/denoisers/{posted['denoiser']}").json()
    assert trained["config"]["recipe"] == recipe
    assert trained["config"]["steps"] == (denoiser or {}).get("steps")


def test_a_denoiser_of_an_earlier_recipe_is_not_found_and_refused_by_id(api):
    gnn, dataset, config = api.gnn(), api.dataset(), {"recipe": "paper", "steps": 5}
    body = {"gnn": gnn, "dataset": dataset, "objective": "counterfactual", "config": config}
    old = api.client.post("/v1/denoisers", json=body).json()["id"]
    with api.store.database.transaction() as session:  # as an earlier version identified it
        denoisers.get(session, old, tenant=DEFAULT_TENANT).key = "0" * 64
    assert api.client.post("/v1/denoisers", json=body).json()["id"] != old
    question = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": api.graph()}
    answer = api.client.post("/v1/explanations", json={**question, "denoiser": old})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/denoiser"
    assert "earlier version" in error["detail"]


@pytest.mark.parametrize(
    ("change", "pointer", "unsupported"),
    [
        ({"kind": "regression"}, "/kind", "regression"),
        ({"kind": "link"}, "/kind", "link prediction"),
        ({"target_value": 3.5}, "/target_value", "regression"),
        ({"edge": ["a", "b"]}, "/edge", "link prediction"),
        ({"edge_label_index": [[0], [1]]}, "/edge_label_index", "link prediction"),
    ],
)
def test_questions_about_links_and_regressions_say_what_is_supported(
    api, change, pointer, unsupported
):
    body = {
        "kind": "counterfactual",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "graph": {"edge_index": [[0], [1]], "num_nodes": 2},
        **change,
    }
    answer = api.client.post("/v1/explanations", json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert f"{unsupported} is not supported" in error["detail"]
    assert "classifiers of graphs and of nodes" in error["detail"]


@pytest.mark.parametrize(
    ("change", "pointer", "unsupported"),
    [
        ({"task": "regression"}, "/task", "regression is"),
        ({"task": "link_prediction"}, "/task", "link prediction is"),
        ({"classes": 1}, "/classes", "regression is"),
        ({"node_types": ["paper", "author"]}, "/node_types", "heterogeneous graphs are"),
        ({"directed": True}, "/directed", "directed graphs are"),
    ],
)
def test_gnns_of_other_tasks_say_what_is_supported(api, change, pointer, unsupported):
    spec = {"features": 1, "classes": 2, "layers": [{"type": "pool", "op": "sum"}], **change}
    answer = api.client.post(
        "/v1/gnns",
        data={"name": "other", "spec": json.dumps(spec)},
        files={"weights": ("w", b"")},
    )
    assert answer.status_code == 422
    errors = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    (detail,) = [text for place, text in errors.items() if place.endswith(pointer)]
    assert f"{unsupported} not supported" in detail
    assert "classifiers of graphs and of nodes" in detail
