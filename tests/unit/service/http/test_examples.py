"""The OpenAPI document is complete, and its examples are valid."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from d4explain.contracts.gnn_spec import parse_spec
from models.classes.config import CLASS_PRESETS
from models.counterfactual.search.search_config import PRESETS
from models.counterfactual.search.single_edits import MAX_PAIRS
from service.graph_io.graph_reader import read_graph
from service.schemas import (
    ClassIn,
    CounterfactualIn,
    DatasetIn,
    DenoiserIn,
    ExplanationIn,
    GlobalIn,
    GraphPreviewIn,
    PredictionsIn,
    WhatIfIn,
)
from store.settings import Settings

METHODS = ("get", "post", "put", "patch", "delete")
BODIES = {
    "/v1/datasets": DatasetIn,
    "/v1/denoisers": DenoiserIn,
    "/v1/explanations": ExplanationIn,
    "/v1/explanations/{explanation_id}/what-if": WhatIfIn,
    "/v1/gnns/{gnn_id}/graph-previews": GraphPreviewIn,
    "/v1/gnns/{gnn_id}/predictions": PredictionsIn,
}


@pytest.fixture
def document(shared_api):
    return shared_api.client.get("/openapi.json").json()


def operations(document):
    return [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def values(media):
    """Examples of one media type object."""
    if "example" in media:
        return [media["example"]]
    return [example["value"] for example in media.get("examples", {}).values()]


def valid(document, media, value):
    schema = {**media["schema"], "components": document["components"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def test_every_route_is_described(document):
    listed = {name for name, _ in operations(document)}
    assert listed == {
        *(f"{method} /v1/{noun}" for noun in ("gnns", "datasets", "denoisers", "explanations")
          for method in ("get", "post")),
        *(f"{method} /v1/{noun}" for noun in ("evaluations", "comparisons")
          for method in ("get", "post")),
        "get /v1/datasets/{dataset_id}/graphs",
        "get /v1/explanations/{explanation_id}/letter",
        "get /v1/explanations/{explanation_id}/report",
        "post /v1/explanations/{explanation_id}/what-if",
        "get /v1/explanations/{explanation_id}/nearest",
        "post /v1/gnns/{gnn_id}/graph-previews",
        "get /v1/gnns/{gnn_id}",
        "patch /v1/gnns/{gnn_id}",
        "delete /v1/gnns/{gnn_id}",
        "put /v1/gnns/{name}/aliases/{alias}",
        "delete /v1/gnns/{name}/aliases/{alias}",
        "post /v1/gnns/{gnn_id}/predictions",
        "get /v1/datasets/{dataset_id}",
        "delete /v1/datasets/{dataset_id}",
        "get /v1/denoisers/{denoiser_id}",
        "get /v1/explanations/{explanation_id}",
        "get /v1/explanations/{explanation_id}/answers/{stage}",
        "post /v1/explanations/{explanation_id}/replay",
        "get /v1/explanations/{explanation_id}/replays",
        "get /v1/replays/{replay_id}",
        "delete /v1/denoisers/{denoiser_id}",
        "delete /v1/explanations/{explanation_id}",
        "delete /v1/jobs/{job_id}",
        "get /v1/holds",
        "get /v1/quotas",
        "get /v1/retention",
        "put /v1/retention",
        *(f"{method} /v1/{{noun}}/{{resource_id}}/hold" for method in ("get", "put", "delete")),
        "get /v1/explanations/{explanation_id}/receipt",
        "get /v1/signing-keys",
        "get /v1/audit-log",
        "get /v1/audit-log/head",
        *(f"{method} /v1/evaluations/{{evaluation_id}}" for method in ("get", "patch", "delete")),
        "get /v1/evaluations/{evaluation_id}/rows",
        "get /v1/evaluations/{evaluation_id}/report",
        "get /v1/evaluations/{evaluation_id}/result",
        "post /v1/evaluations/{evaluation_id}/test-result",
        *(f"{method} /v1/comparisons/{{comparison_id}}" for method in ("get", "patch", "delete")),
        "get /v1/jobs",
        "get /v1/jobs/{job_id}",
        "get /v1/jobs/{job_id}/events",
        "post /v1/jobs/{job_id}/cancel",
        "post /v1/jobs/{job_id}/retry",
        *(f"{method} /v1/webhooks" for method in ("get", "post")),
        *(f"{method} /v1/webhooks/{{webhook_id}}" for method in ("get", "patch", "delete")),
        "patch /v1/explanations/{explanation_id}",
        "patch /v1/datasets/{dataset_id}",
        "patch /v1/denoisers/{denoiser_id}",
        "post /v1/webhooks/{webhook_id}/rotate",
        "get /v1/webhook-deliveries",
        "get /v1/webhook-deliveries/{delivery_id}",
        "post /v1/webhook-deliveries/{delivery_id}/redeliver",
        *(f"{method} /v1/keys" for method in ("get", "post")),
        *(f"{method} /v1/keys/{{key_id}}" for method in ("get", "delete")),
        "post /v1/keys/{key_id}/rotate",
        *(f"{method} /v1/session" for method in ("get", "post", "delete")),
        *(f"{method} /v1/explanations/{{explanation_id}}/links" for method in ("get", "post")),
        "delete /v1/explanations/{explanation_id}/links/{link_id}",
        "get /livez",
        "post /v1/datasets/large",
        "get /readyz",
        "get /metrics",
        "get /v1/metrics",
        "get /v1/models/{model_name}",
        "post /v1/models/{model_name}:explain",
        "get /v1/explanations/{explanation_id}/trustyai",
    }  # fmt: skip


def test_every_body_and_response_has_a_valid_example(document):
    missing, invalid = [], []
    for name, operation in operations(document):
        assert operation["summary"], name
        assert any(200 <= int(status) < 300 for status in operation["responses"]), name
        places = dict(operation["responses"])
        if "requestBody" in operation:
            places["request"] = operation["requestBody"]
        for place, found in places.items():
            for media_type, media in found.get("content", {}).items():
                examples = values(media)
                if not examples:
                    missing.append((name, place, media_type))
                for example in examples:
                    invalid += [(name, place, error) for error in valid(document, media, example)]
        for parameter in operation.get("parameters", []):
            assert parameter["in"] != "header" or "example" in parameter, (name, parameter)
    assert not missing
    assert not invalid


def test_only_empty_responses_have_no_content(document):
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert ("content" in answer) == (status not in ("204", "304")), (name, status)


def test_models_and_the_graph_reader_accept_example_bodies(document):
    settings = Settings()
    for path, model in BODIES.items():
        media = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert values(media)
        for example in values(media):
            body = model.model_validate(example, strict=True)
            posted = body.root if isinstance(body, ExplanationIn) else body
            assert isinstance(
                posted,
                CounterfactualIn
                | ClassIn
                | DatasetIn
                | DenoiserIn
                | GlobalIn
                | GraphPreviewIn
                | PredictionsIn
                | WhatIfIn,
            )
            if isinstance(posted, WhatIfIn):  # names a graph by its number
                continue
            graphs = [*(getattr(posted, "graphs", None) or []), getattr(posted, "graph", None)]
            for graph in graphs:
                if graph is not None:
                    assert read_graph(graph, "/graph", settings, None).edges
    form = document["paths"]["/v1/gnns"]["post"]["requestBody"]["content"]["multipart/form-data"]
    assert parse_spec(values(form)[0]["spec"]).classes == 2


def test_the_limits_of_the_deployment_are_published(document, shared_api):
    settings = shared_api.store.settings
    description = document["info"]["description"]
    assert f"| nodes of a graph | {settings.max_nodes:,} |" in description
    assert f"| bytes of a JSON body | {settings.max_body_bytes:,} |" in description


def test_preset_descriptions_match_their_settings(document):
    schemas = document["components"]["schemas"]
    described = schemas["CounterfactualIn"]["properties"]["preset"]
    assert described["default"] == "balanced"
    assert described["enum"] == list(PRESETS)
    for name in PRESETS:
        assert f"`{name}`" in described["description"]
    assert f"{MAX_PAIRS:,} pairs" in described["description"]
    described = schemas["ClassIn"]["properties"]["preset"]["description"]
    for name, effort in CLASS_PRESETS.items():
        assert f"`{name}`: {effort.candidates} candidates, {effort.steps} steps" in described


def test_every_reference_resolves(document):
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names
    assert names <= document["components"]["schemas"].keys()


def test_errors_are_problems_everywhere(document):
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            if int(status) >= 400 and name != "get /readyz":
                assert list(answer["content"]) == ["application/problem+json"], (name, status)


def test_example_responses_have_the_fields_of_real_ones(shared_api, document):
    """Compares the fields of each resource with those of its example."""
    api = shared_api
    posted = api.explanation()
    schemas = document["components"]["schemas"]
    for path, answer in (
        ("/v1/explanations/{explanation_id}", api.client.get(f"/v1/explanations/{posted['id']}")),
        ("/v1/jobs/{job_id}", api.client.get(f"/v1/jobs/{posted['job']['id']}")),
        ("/v1/gnns/{gnn_id}", api.client.get(f"/v1/gnns/{posted['gnn']}")),
        ("/v1/datasets/{dataset_id}", api.client.get(f"/v1/datasets/{posted['dataset']}")),
        ("/v1/denoisers/{denoiser_id}", api.client.get(f"/v1/denoisers/{posted['denoiser']}")),
        ("/readyz", api.client.get("/readyz")),
    ):
        responses = document["paths"][path]["get"]["responses"]
        media = responses[str(answer.status_code)]["content"]["application/json"]
        assert valid(document, media, answer.json()) == []
        assert answer.json().keys() == values(media)[0].keys()
    assert TypeAdapter(dict[str, dict]).validate_python(schemas)
