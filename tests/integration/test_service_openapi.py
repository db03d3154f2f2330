"""Schemathesis against the application: whatever is sent, no 5xx and only documented answers."""

from __future__ import annotations

import warnings

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-npz", "application/x-ndjson")
def as_bytes(_, value):
    """Uploads are streams of bytes; whatever is drawn for them is sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def known(shared_api):
    """Ids that exist, since no generator guesses one."""
    explanation = shared_api.explanation()
    shared_api.finish_explanation(explanation)
    return {
        "gnn_id": explanation["gnn"],
        "name": "a GNN",
        "alias": "production",
        "dataset_id": explanation["dataset"],
        "denoiser_id": explanation["denoiser"],
        "explanation_id": explanation["id"],
        "job_id": explanation["job"]["id"],
    }


@pytest.fixture(scope="module")
def described(shared_api):
    return schemathesis.openapi.from_dict(shared_api.client.get("/openapi.json").json())


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_nothing_breaks_and_all_answers_are_documented(shared_api, known, described, mode):
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    answered = set()
    for operation in operations:
        answered |= {
            (operation.label, status) for status in try_out(operation, mode, shared_api, known)
        }
    statuses = {status for _, status in answered}
    # The run is worth something only if it got past the first doors.
    expected = {200, 404} if mode is GenerationMode.POSITIVE else {404, 422}
    assert expected <= statuses


def try_out(operation, mode, api, known):
    statuses = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=12 if operation.method == "post" else 5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case):
        aim(case, known, len(statuses))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            response = case.call("http://127.0.0.1", app=api.client.app)
        statuses.append(response.status_code)
        case.validate_response(response, checks=CHECKS)

    try:
        run()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # nothing to get wrong, as at /livez
        assert not statuses
    return statuses


def aim(case, known, turn):
    """Half of the cases are pointed at what exists, so that they get past the first 404."""
    case.headers["Prefer"] = "respond-async"  # nobody works here: waiting would only take time
    if turn % 2 or case.method == "DELETE":
        return
    for name in case.path_parameters:
        case.path_parameters[name] = known[name]
    if isinstance(case.body, dict):
        for noun in ("gnn", "dataset"):
            if noun in case.body:
                case.body[noun] = known[f"{noun}_id"]
