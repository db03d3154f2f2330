"""What clients ask for: predictions, searches, trainings, explanations and poison jobs."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from d4explain.contracts.job_states import JobState
from tests.processes import EdgeCounter

_SHARE_OF_SEARCHES = 0.35
_TRAINING = {"steps": 80, "hidden": 4, "blocks": 1}
_DEADLY_VALUE = (
    1313.25  # `d4_poison.DEADLY_VALUE`, which is importable in the started processes only
)


@dataclass(frozen=True)
class Work:
    """One request; equal works have equal results."""

    name: str
    path: str
    body: dict[str, Any]
    ending: JobState = JobState.SUCCEEDED


@dataclass(frozen=True)
class Inputs:
    """The GNNs and the reference set that the works refer to."""

    gnn: str
    deadly_gnn: str
    dataset: str

    @classmethod
    def register(cls, client: httpx.Client, url: str) -> Inputs:
        counter = EdgeCounter.make()
        layers = [{"type": "poison"}, *counter.spec["layers"]]
        deadly = {**counter.spec, "layers": layers}
        weights = counter.weights.replace(b"layers.2.", b"layers.3.")
        weights = weights.replace(b"layers.0.", b"layers.1.")

        return cls(
            gnn=register_gnn(client, url, "counter", counter.spec, counter.weights),
            deadly_gnn=register_gnn(client, url, "deadly", deadly, weights),
            dataset=register_rings(client, url),
        )


def register_gnn(
    client: httpx.Client, url: str, name: str, spec: dict[str, Any], weights: bytes
) -> str:
    answer = client.post(
        f"{url}/v1/gnns",
        data={"name": name},
        files={"spec": json.dumps(spec), "weights": weights},
        headers={"Prefer": "wait=60"},
    )
    document = answer.raise_for_status().json()
    assert document["state"] == "ready", document
    return str(document["id"])


def register_rings(client: httpx.Client, url: str) -> str:
    dataset = {"name": "rings", "graphs": [ring(nodes) for nodes in (4, 5, 6, 7)]}
    return str(client.post(f"{url}/v1/datasets", json=dataset).raise_for_status().json()["id"])


def ring(nodes: int, value: float = 1.0) -> dict[str, Any]:
    return {
        "nodes": [{"id": node, "x": [value]} for node in range(nodes)],
        "edges": [{"source": node, "target": (node + 1) % nodes} for node in range(nodes)],
    }


def all_works(inputs: Inputs, jobs: int, poison_jobs: int) -> list[Work]:
    """One work per request, in a fixed order; most occur several times.

    A training and an explanation that waits for it occur once, since equal ones share a denoiser.
    """
    unique = max(1, jobs // 100)
    searches = round(_SHARE_OF_SEARCHES * jobs)
    rare = [_training(inputs, seed) for seed in range(2 * unique)]
    rare += [_explanation(inputs, 1000 + seed) for seed in range(unique)]
    rare += [_poison(inputs)] * poison_jobs
    many = [_search(inputs, 5 + position % 4, position % 8) for position in range(searches)]
    predictions = max(0, jobs - len(rare) - len(many))
    many += [_prediction(inputs, 4 + position % 9) for position in range(predictions)]
    return rare + many


def distinct(works: Sequence[Work]) -> list[Work]:
    return list({work.name: work for work in works}.values())


def shuffled(works: Sequence[Work], rng: random.Random) -> list[Work]:
    return rng.sample(works, len(works))


def long_training(inputs: Inputs, seed: int) -> Work:
    """A training that is still running when it is killed and continued, and is then canceled."""
    config = {**_TRAINING, "steps": 20_000, "seed": 5000 + seed}
    body = {"gnn": inputs.gnn, "dataset": inputs.dataset, "objective": "class", "config": config}
    return Work(f"long training {seed}", "/v1/denoisers", body, JobState.CANCELED)


def _prediction(inputs: Inputs, nodes: int) -> Work:
    body = {"graphs": [ring(nodes), ring(nodes + 1)]}
    return Work(f"prediction {nodes}", f"/v1/gnns/{inputs.gnn}/predictions", body)


def _search(inputs: Inputs, nodes: int, seed: int) -> Work:
    body = _counterfactual(inputs, [ring(nodes), ring(nodes + 1)], seed)
    return Work(f"search {nodes} {seed}", "/v1/explanations", body | {"explainer": "search"})


def _explanation(inputs: Inputs, seed: int) -> Work:
    body = _counterfactual(inputs, [ring(6)], seed)
    denoiser = {**_TRAINING, "seed": seed}
    return Work(f"explanation {seed}", "/v1/explanations", body | {"denoiser": denoiser})


def _counterfactual(inputs: Inputs, graphs: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    return {
        "kind": "counterfactual",
        "gnn": inputs.gnn,
        "dataset": inputs.dataset,
        "graphs": graphs,
        "aim": "minimal",
        "judges": "none",
        "constraints": {"max_ratio": 1.0},
        "seed": seed,
    }


def _training(inputs: Inputs, seed: int) -> Work:
    config = {**_TRAINING, "seed": seed}
    body = {"gnn": inputs.gnn, "dataset": inputs.dataset, "objective": "class", "config": config}
    return Work(f"training {seed}", "/v1/denoisers", body)


def _poison(inputs: Inputs) -> Work:
    path = f"/v1/gnns/{inputs.deadly_gnn}/predictions"
    return Work("poison", path, {"graph": ring(5, _DEADLY_VALUE)}, JobState.FAILED)


def accepted_job(path: str, document: dict[str, Any]) -> tuple[str, str]:
    """The job and the resource of an accepted request; a prediction is its own job."""
    job = str(document["job"]["id"])
    return job, job if path.endswith("/predictions") else str(document["id"])


def result_address(path: str, resource: str) -> str:
    return f"/v1/jobs/{resource}" if path.endswith("/predictions") else f"{path}/{resource}"


def result_digest(document: dict[str, Any]) -> str | None:
    """A digest of everything in a result that has to be equal in two runs; None without result."""
    content = document.get("weights_sha256") or document.get("result")
    if content is None:
        return None
    if isinstance(content, dict) and "receipt" in content:
        content = {name: content[name] for name in ("stage", "answers", "summary", "mmd")}
    canonical = json.dumps(_without_times(content), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(one) for name, one in value.items() if name != "seconds"}
    if isinstance(value, list):
        return [_without_times(one) for one in value]
    return value
