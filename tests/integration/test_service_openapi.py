"""Schemathesis: generated requests get no 5xx and only documented responses.

The long form: `D4_TEST_CASES=20000 python -m pytest tests/integration/test_service_openapi.py
-s --timeout 0`.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections import Counter
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.webhooks import deliveries, endpoints

# About this many requests are sent by default; the long form sends more.
DEFAULT_CASES = 700
SECONDS = 60  # for one response; a busy machine may need more than the default of 10
CHAINED_CASES = 150  # besides, in chains
SCALE = int(os.environ.get("D4_TEST_CASES", DEFAULT_CASES)) / DEFAULT_CASES
ID = re.compile(r"[a-z]+_[0-9a-z]{20}")
# Resources that a deployment with default settings does not have.
NOT_CREATED = {"replay_id", "key_id"}
# The kinds of resources that fields of bodies name.
NAMED = {
    "gnn": "gnn",
    "dataset": "dataset",
    "test": "dataset",
    "baseline": "evaluation",
    "candidate": "evaluation",
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-npz", "application/x-ndjson")
def as_bytes(_, value):
    """Sends the generated value as bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def existing(shared_api):
    """Ids of existing resources; generated ids exist nowhere."""
    explanation = shared_api.explanation()
    with shared_api.store.database.transaction() as session:
        webhook = endpoints.create(
            session, tenant=DEFAULT_TENANT, url="https://hooks.example.org/"
        ).id
    shared_api.finish_explanation(explanation)
    inputs = {"gnn": explanation["gnn"], "dataset": explanation["dataset"]}
    evaluated = [shared_api.evaluation(**inputs, seed=seed) for seed in (0, 1)]
    for evaluation in evaluated:
        shared_api.finish_evaluation(evaluation)
    body = {"baseline": evaluated[0], "candidate": evaluated[1]}
    comparison = shared_api.client.post("/v1/comparisons", json=body).json()
    with shared_api.store.database.reading() as session:
        delivery = deliveries.page(session, DEFAULT_TENANT).items[0].id
    return {
        "gnn_id": explanation["gnn"],
        "model_name": explanation["gnn"],
        "name": "a GNN",
        "alias": "production",
        "dataset_id": explanation["dataset"],
        "denoiser_id": explanation["denoiser"],
        "explanation_id": explanation["id"],
        "evaluation_id": evaluated[0],
        "comparison_id": comparison["id"],
        "job_id": explanation["job"]["id"],
        "stage": "final",
        "webhook_id": webhook,
        "delivery_id": delivery,
        "noun": "explanations",  # of a legal hold
        "resource_id": explanation["id"],
    }


@pytest.fixture(scope="module")
def schema(shared_api):
    return schemathesis.openapi.from_dict(shared_api.client.get("/openapi.json").json())


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_generated_requests_get_documented_responses(shared_api, existing, schema, mode):
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    statuses = Counter()
    for operation in operations:
        statuses.update(send_generated_requests(operation, mode, shared_api, existing))
    print(f"{statuses.total()} {mode.value} requests to {len(operations)} operations: {statuses}")
    # Some requests must reach the code behind validation and lookup.
    expected = {200, 404} if mode is GenerationMode.POSITIVE else {404, 422}
    assert expected <= set(statuses)


def send_generated_requests(operation, mode, api, existing):
    statuses = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=round(SCALE * (12 if operation.method == "post" else 5)),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case):
        use_existing_ids(case, existing, len(statuses))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            response = case.call("http://127.0.0.1", app=api.client.app, timeout=SECONDS)
        statuses.append(response.status_code)
        case.validate_response(response, checks=CHECKS)

    try:
        run()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # an operation without parameters, such as /livez
        assert not statuses
    return statuses


def use_existing_ids(case, existing, number):
    """Replaces ids by existing ones in every second case, which would get 404 otherwise."""
    case.headers["Prefer"] = "respond-async"  # no worker runs, so waiting would only take time
    if number % 2 or case.method == "DELETE":
        return
    for name in case.path_parameters:
        if name not in NOT_CREATED:
            case.path_parameters[name] = existing[name]
    if isinstance(case.body, dict):
        for name, kind in NAMED.items():
            if name in case.body:
                case.body[name] = existing[f"{kind}_id"]


def run_chains(chains):
    run_state_machine_as_test(
        chains,
        settings=settings(
            max_examples=15,
            stateful_step_count=10,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_chains_of_requests_get_documented_responses(shared_api, existing, schema):
    """Requests use what earlier responses returned, along the links between operations."""
    statuses, failures = Counter(), []
    common = {"gnn": existing["gnn_id"], "dataset": existing["dataset_id"]}
    valid_bodies = {
        "POST /v1/datasets": {"name": "a set", "graphs": [shared_api.graph()]},
        "POST /v1/explanations": {
            **common,
            "kind": "counterfactual",
            "graph": shared_api.graph(),
            "explainer": "search",
        },
        "POST /v1/evaluations": {
            **common,
            "test": existing["dataset_id"],
            "explainers": ["search"],
            "metrics": [],
        },
        "POST /v1/denoisers": {**common, "objective": "class"},
        "POST /v1/gnns/{gnn_id}/predictions": {"graph": shared_api.graph()},
    }

    class Chains(schema.as_state_machine()):
        def before_call(self, case):
            """Every second case is valid; otherwise nearly all chains would end at once."""
            case.headers["Prefer"] = "respond-async"
            if statuses.total() % 2:
                return
            for name, value in case.path_parameters.items():
                if not ID.fullmatch(str(value)):  # an earlier response has not given one
                    case.path_parameters[name] = existing.get(name, value)
            if case.operation.label in valid_bodies:
                case.body = valid_bodies[case.operation.label]
                case.query = {}
                case.headers.pop("Idempotency-Key", None)

        def get_call_kwargs(self, case):
            app = shared_api.client.app
            return {"base_url": "http://127.0.0.1", "app": app, "timeout": SECONDS}

        def after_call(self, response, case):
            statuses[case.operation.label, response.status_code] += 1

        def validate_response(self, response, case, additional_checks=(), **_):
            try:
                case.validate_response(response, checks=CHECKS)
            except BaseException as failure:
                failures.append(failure)  # repeating the chain may end otherwise
                raise

    for number in itertools.count():
        if statuses.total() >= SCALE * CHAINED_CASES:
            break
        with warnings.catch_warnings(), suppress(FlakyStrategyDefinition):
            # The API keeps what earlier chains created, so equal choices may lead elsewhere. That
            # ends a run of Hypothesis; every response was checked when it came.
            warnings.simplefilter("ignore")
            run_chains(seed(number)(Chains))
        assert failures == []
    succeeded = {label for label, status in statuses if 200 <= status < 300}
    print(f"{statuses.total()} requests in chains; operations that succeeded: {sorted(succeeded)}")
    assert any("{" in label for label in succeeded)
