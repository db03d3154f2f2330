"""DELETE of explanations, denoisers and jobs, and holds, over HTTP."""

from __future__ import annotations

import pytest

from store.queue.cleanup import delete_released, delete_unneeded
from tests.store_rows import create_ready_gnn

PATHS = {"exp": "explanations", "gnn": "gnns", "set": "datasets", "den": "denoisers", "job": "jobs"}


def path(id_: str) -> str:
    return f"/v1/{PATHS[id_[:3]]}/{id_}"


def digests(api) -> set[str]:
    return {listed.digest for listed in api.store.artifacts.listed()}


def other_gnn(api) -> str:
    """A ready GNN with other weights than those of `api.gnn`."""
    weights = api.store.artifacts.of("default").put(api.weights(value=0.25))
    with api.store.database.transaction() as session:
        gnn = create_ready_gnn(session, weights, spec=api.spec())
    return str(gnn.id)


def problem(answer, status: int, slug: str) -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["type"] == f"urn:d4explain:problem:{slug}"
    return body["detail"]


def test_a_deleted_explanation_leaves_nothing(api):
    before = digests(api)
    explanation = api.explanation()
    api.finish_explanation(explanation)
    id_, job_id = explanation["id"], explanation["job"]["id"]
    assert api.client.get(f"/v1/explanations/{id_}?format=svg").status_code == 200
    inputs = api.store.artifacts
    shown = api.client.get(path(id_)).json()
    answers = {answer["sha256"] for answer in shown["answers"]}
    assert answers <= digests(api)

    assert api.client.delete(path(id_)).status_code == 204
    for gone in (path(id_), f"{path(id_)}/answers/final", path(job_id), f"{path(job_id)}/events"):
        problem(api.client.get(gone), 404, "not-found")
    problem(api.client.delete(path(id_)), 404, "not-found")
    assert id_ not in {item["id"] for item in api.client.get("/v1/explanations").json()["items"]}

    assert delete_released(api.store.database, inputs) == 3  # request and two answers
    left = digests(api) - before
    assert answers.isdisjoint(left)
    # GNN, reference set and denoiser stay.
    assert len(left) == 3
    for kept in (shown["gnn"], shown["dataset"], shown["denoiser"]):
        assert api.client.get(path(kept)).status_code == 200


def test_an_explanation_is_deleted_only_after_its_jobs_have_ended(api):
    explanation = api.explanation()
    detail = problem(api.client.delete(path(explanation["id"])), 409, "conflict")
    assert "cancel it or wait" in detail
    assert api.client.post(f"{path(explanation['job']['id'])}/cancel").status_code == 200
    assert api.client.delete(path(explanation["id"])).status_code == 204


def test_a_retried_explanation_is_deleted_with_all_its_jobs(api):
    explanation = api.explanation(explainer="search", aim="minimal", judges="none")
    first = explanation["job"]["id"]
    api.client.post(f"{path(first)}/cancel")
    second = api.client.post(f"{path(first)}/retry").json()["id"]
    detail = problem(api.client.delete(path(second)), 409, "conflict")
    assert "only an ended job" in detail
    api.finish(second, api.result())
    detail = problem(api.client.delete(path(second)), 409, "conflict")
    assert explanation["id"] in detail
    assert api.client.delete(path(explanation["id"])).status_code == 204
    for job in (first, second):
        problem(api.client.get(path(job)), 404, "not-found")


def test_a_replaced_job_can_be_deleted_alone(api):
    explanation = api.explanation(explainer="search", aim="minimal", judges="none")
    first = explanation["job"]["id"]
    api.client.post(f"{path(first)}/cancel")
    second = api.client.post(f"{path(first)}/retry").json()["id"]
    assert api.client.delete(path(first)).status_code == 204
    assert api.client.get(path(second)).json()["retry_of"] is None
    api.finish(second, api.result())
    assert api.client.get(path(explanation["id"])).json()["result"] is not None


def test_a_prediction_is_deleted_with_its_graphs(api):
    gnn = api.gnn()
    posted = api.client.post(
        f"/v1/gnns/{gnn}/predictions", json={"graph": api.graph()}, headers={"Prefer": "wait=0"}
    )
    job_id = posted.json()["job"]["id"]
    problem(api.client.delete(path(job_id)), 409, "conflict")
    api.client.post(f"{path(job_id)}/cancel")
    before = digests(api)
    assert api.client.delete(path(job_id)).status_code == 204
    assert delete_released(api.store.database, api.store.artifacts) == 1
    assert len(before - digests(api)) == 1


def test_a_deleted_denoiser_is_trained_again(api):
    explanation = api.explanation()
    denoiser = explanation["denoiser"]
    detail = problem(api.client.delete(path(denoiser)), 409, "conflict")
    assert "in use" in detail
    api.finish_explanation(explanation)
    weights = api.store.artifacts.of("default").put(b"weights")
    assert api.client.delete(path(denoiser)).status_code == 204
    problem(api.client.get(path(denoiser)), 404, "not-found")
    assert delete_released(api.store.database, api.store.artifacts) == 1
    assert weights not in digests(api)
    shown = api.client.get(path(explanation["id"])).json()
    assert shown["result"] is not None

    again = api.explanation(gnn=shown["gnn"], dataset=shown["dataset"])
    assert again["denoiser"] != denoiser
    assert again["job"]["waiting_for"] is not None


def test_shared_files_are_kept_until_the_last_user_is_deleted(api):
    gnn, dataset = api.gnn(), api.dataset()
    asked = {"explainer": "search", "aim": "minimal", "judges": "none"}
    first, second = (api.explanation(gnn=gnn, dataset=dataset, **asked) for _ in range(2))
    for explanation in (first, second):
        api.finish(explanation["job"]["id"], api.result())
    before = digests(api)
    assert api.client.delete(path(first["id"])).status_code == 204
    assert delete_unneeded(api.store.database, api.store.artifacts) == 0
    assert api.client.get(path(second["id"])).json()["result"] is not None
    assert api.client.delete(path(second["id"])).status_code == 204
    assert delete_unneeded(api.store.database, api.store.artifacts) == 2  # request and result
    assert len(before - digests(api)) == 2


def test_a_hold_protects_the_explanation_and_what_it_needs(api):
    judge = other_gnn(api)
    explanation = api.explanation(judges=[judge])
    api.finish_explanation(explanation)
    id_ = explanation["id"]
    shown = api.client.get(path(id_)).json()
    problem(api.client.get(f"{path(id_)}/hold"), 404, "not-found")
    put = api.client.put(f"{path(id_)}/hold", json={"reason": "audit 7"})
    assert put.status_code == 200, put.text
    needed = {judge, shown["gnn"], shown["dataset"], shown["denoiser"]}
    assert set(put.json()["protects"]) == needed
    assert api.client.get("/v1/holds").json()["items"] == [put.json()]
    for protected in (id_, judge, shown["gnn"], shown["dataset"], shown["denoiser"]):
        detail = problem(api.client.delete(path(protected)), 409, "on-hold")
        assert "audit 7" in detail
        assert id_ in detail
    again = api.client.put(f"{path(id_)}/hold", json={"reason": "audit 8"}).json()
    assert (again["reason"], again["created_at"]) == ("audit 8", put.json()["created_at"])

    assert api.client.delete(f"{path(id_)}/hold").status_code == 204
    problem(api.client.delete(f"{path(id_)}/hold"), 404, "not-found")
    for protected in (id_, shown["denoiser"], judge, shown["gnn"], shown["dataset"]):
        assert api.client.delete(path(protected)).status_code == 204


@pytest.mark.parametrize("kind", ["gnn", "dataset", "denoiser", "job"])
def test_every_kind_can_be_held(api, kind):
    explanation = api.explanation()
    api.finish_explanation(explanation)
    id_ = explanation["job"]["id"] if kind == "job" else explanation[kind]
    assert api.client.put(f"{path(id_)}/hold", json={"reason": "kept"}).status_code == 200
    if kind == "job":
        assert api.client.delete(path(id_)).status_code == 409
    else:
        problem(api.client.delete(path(id_)), 409, "on-hold")


@pytest.mark.parametrize(
    ("where", "body", "status"),
    [
        ("/v1/explanations/exp_unknown/hold", {"reason": "x"}, 404),
        ("/v1/explanations/EXP/hold", {"reason": "x"}, 404),
        ("/v1/widgets/exp_unknown/hold", {"reason": "x"}, 422),
        ("/v1/gnns/gnn_unknown/hold", {}, 422),
        ("/v1/gnns/gnn_unknown/hold", {"reason": ""}, 422),
        ("/v1/gnns/gnn_unknown/hold", {"reason": "x" * 501}, 422),
    ],
)
def test_wrong_holds_are_refused(api, where, body, status):
    assert api.client.put(where, json=body).status_code == status
