"""Resources that the attacks request."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from d4explain.contracts.counterfactual_results import CounterfactualResult
from service import examples
from store.settings import Settings
from store.store import Store
from tests.abuse.service import Api
from tests.conftest import Deployment


def graph(nodes: int, edges: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    pairs = {(i, rng.randrange(i)) for i in range(1, nodes)}
    while len(pairs) < edges:
        first, second = sorted(rng.sample(range(nodes), 2), reverse=True)
        pairs.add((first, second))
    return {
        "nodes": [{"id": i, "x": [1.0]} for i in range(nodes)],
        "edges": [{"source": s, "target": t} for s, t in sorted(pairs)],
    }


def result_of(graphs: Sequence[dict[str, Any]], copies: int = 1) -> CounterfactualResult:
    """A result with these graphs as counterfactuals; `copies` of each make it larger."""
    document = dict(examples.EXPLANATION["result"])
    found = document["answers"][0]
    best = found["counterfactuals"][0]
    answers = [
        {
            **found,
            "counterfactuals": [
                {**best, "graph": {**best["graph"], **graph}, "edits": []} for _ in range(copies)
            ],
        }
        for graph in graphs
    ]
    return CounterfactualResult.model_validate({**document, "answers": answers})


@dataclass(frozen=True)
class Stored:
    """Resources that the attacks request."""

    waiting_job: str
    small: str
    drawings: str  # 40 graphs of 480 nodes
    large: str  # one graph of 4,096 nodes
    heavy: str  # a result of 40 MB
    request_body: bytes


def store_resources(api: Api) -> Stored:
    with Store.open(Settings(data_dir=api.folder), migrate=False) as store:
        deployment = Deployment(store, api.client)
        gnn, dataset = deployment.gnn(), deployment.dataset()

        def finished(seed: int, result: CounterfactualResult | None) -> str:
            posted = deployment.explanation(gnn=gnn, dataset=dataset, seed=seed)
            deployment.finish_explanation(posted, result)
            return str(posted["id"])

        small = finished(1, None)
        drawings = finished(2, result_of([graph(480, 960, seed) for seed in range(40)]))
        large = finished(3, result_of([graph(4096, 32768, 0)]))
        heavy = finished(4, result_of([graph(4096, 32768, 1)], copies=18))
        waiting = deployment.explanation(gnn=gnn, dataset=dataset, seed=5)["job"]["id"]
        request_body = json.dumps(
            {
                "kind": "counterfactual",
                "gnn": gnn,
                "dataset": dataset,
                "graph": deployment.graph(),
            }
        ).encode()
    return Stored(waiting, small, drawings, large, heavy, request_body)
