"""The standard set: counterfactuals of some held-out graphs, and one explanation of each class."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d4explain.client.client import Client
from d4explain.client.resources import Dataset, Explanation, Gnn
from d4explain.contracts.requests import Aim, Explainer, Preset
from d4explain.errors import D4Error

COUNTERFACTUAL = "counterfactual"  # label of the explanation of graphs
GRAPHS = 10  # by default; fewer say little about the MMD


class NothingToExplainError(D4Error):
    """There is no graph that could be explained."""


@dataclass(frozen=True)
class StandardSet:
    graphs: int = GRAPHS  # or nodes, of a node classifier
    classes: bool = True
    aim: Aim | None = None
    explainer: Explainer | None = None
    preset: Preset | None = None
    denoiser_steps: int | None = None
    time_budget: float | None = None
    seed: int = 0

    def labels(self, gnn: Gnn) -> list[str]:
        """One label per explanation; a class has its name, else its number."""
        classes = range(int(gnn.spec["classes"])) if self.classes else []
        return [COUNTERFACTUAL, *(class_label(gnn, number) for number in classes)]

    def request(
        self,
        client: Client,
        gnn: Gnn,
        dataset: Dataset,
        label: str,
        subjects: Subjects | None,
        *,
        key: str,
    ) -> Explanation:
        """The explanation with this label; the same key returns the same one."""
        options: dict[str, Any] = {
            "preset": self.preset,
            "seed": self.seed,
            "time_budget": self.time_budget,
            "denoiser": self.denoiser_steps and {"steps": self.denoiser_steps},
            "idempotency_key": key,
        }
        if label != COUNTERFACTUAL:
            number = self.labels(gnn).index(label) - 1
            return client.explain_class(gnn, dataset, number, **_given(options))
        assert subjects is not None
        options |= {"aim": self.aim, "explainer": self.explainer, "nodes": subjects.nodes}
        if self.explainer == "search":  # it trains no denoiser
            options["denoiser"] = None
        return client.explain_counterfactual(gnn, dataset, subjects.graphs, **_given(options))


@dataclass(frozen=True)
class Subjects:
    """What the counterfactuals are of: graphs, or nodes of one graph."""

    graphs: list[dict[str, Any]] | None  # None: nodes of a large graph of the service
    nodes: list[int | str] | None
    source: str  # in words

    @classmethod
    def of_documents(
        cls, gnn: Gnn, documents: Sequence[dict[str, Any]], source: str, chosen: StandardSet
    ) -> Subjects:
        """Drawn from the graphs of a file; for a node classifier, nodes of its first graph."""
        if not documents:
            raise NothingToExplainError(f"there are no graphs in the {source}")
        if not classifies_nodes(gnn):
            positions = sampled(len(documents), chosen)
            described = f"{len(positions)} of {len(documents)} {source} graphs"
            return cls([documents[position] for position in positions], None, described)
        ids = _node_ids(documents[0])
        nodes = [ids[position] for position in sampled(len(ids), chosen)]
        described = f"{len(nodes)} of {len(ids)} nodes of the first {source} graph"
        return cls([documents[0]], nodes, described)

    @classmethod
    def of_dataset(
        cls, client: Client, gnn: Gnn, dataset: Dataset, chosen: StandardSet
    ) -> Subjects:
        """Drawn from a registered reference set."""
        if dataset.large:
            nodes = sampled(dataset.max_nodes, chosen)
            described = f"{len(nodes)} of {dataset.max_nodes} nodes of {dataset.name}"
            return cls(None, list(nodes), described)
        count = 1 if classifies_nodes(gnn) else dataset.graph_count
        documents = [
            document
            for position in sampled(count, chosen)
            for document in client.dataset_graphs(dataset.id, offset=position, limit=1)
        ]
        found = cls.of_documents(gnn, documents, "reference", chosen)
        if classifies_nodes(gnn):
            return found
        described = f"{len(documents)} of {dataset.graph_count} reference graphs"
        return cls(found.graphs, found.nodes, described)


def class_label(gnn: Gnn, number: int) -> str:
    names = gnn.spec.get("class_names")
    return f"class {names[number] if names else number}"


def classifies_nodes(gnn: Gnn) -> bool:
    return gnn.spec.get("task") == "node"


def sampled(count: int, chosen: StandardSet) -> list[int]:
    """Positions drawn at random by the seed, in order."""
    return sorted(random.Random(chosen.seed).sample(range(count), min(count, chosen.graphs)))


def _node_ids(document: Mapping[str, Any]) -> list[int | str]:
    if "nodes" in document:
        return [node["id"] for node in document["nodes"]]
    if "x" in document:
        return list(range(len(document["x"])))
    return list(range(int(document["num_nodes"])))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
