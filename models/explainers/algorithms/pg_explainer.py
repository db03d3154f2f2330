"""PGExplainer: one network, trained over many graphs, scores an edge by its ends' node states.

Luo et al., "Parameterized Explainer for Graph Neural Network", NeurIPS 2020.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.explain import Explainer as PygExplainer
from torch_geometric.explain import ModelConfig
from torch_geometric.explain import PGExplainer as PygPgExplainer

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import CounterfactualOracle, StoppedError
from models.errors import NothingToLearnError
from models.explainers.algorithms.pyg_model import (
    PygModel,
    attributes_both_ways,
    both_directions,
    undirected,
)
from models.explainers.interface import EdgeScores, seeded

EPOCHS = 20
GRAPHS = 100  # reference graphs of the training


class PgExplainer:
    """PyG's implementation; a node is scored together with its own state."""

    def __init__(self, explainer: PygExplainer) -> None:
        self._explainer = explainer

    @staticmethod
    def train(
        gnn: Gnn,
        graphs: Sequence[Graph],
        generator: torch.Generator,
        *,
        epochs: int = EPOCHS,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> PgExplainer:
        """Trains with the GNN's own predictions on graphs that have edges."""
        per_node = gnn.spec.classifies_nodes
        model = PygModel(gnn, per_node=per_node).eval()
        with seeded(generator):
            algorithm = PygPgExplainer(epochs=epochs)
        explainer = PygExplainer(
            model=model,
            algorithm=algorithm,
            explanation_type="phenomenon",
            edge_mask_type="object",
            model_config=ModelConfig(
                "multiclass_classification", "node" if per_node else "graph", "raw"
            ),
        )
        inputs = [_inputs(model, graph) for graph in graphs if graph.edge_count]
        if not inputs or not gnn.spec.convolutions:
            lack = "the GNN reads no edges" if inputs else "none has edges"
            raise NothingToLearnError("pgexplainer", len(graphs), lack)
        with (
            seeded(generator),
            torch.inference_mode(mode=False),
            torch.enable_grad(),
            warnings.catch_warnings(),
        ):
            # PyG converts its loss to a number without detaching it.
            warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad")
            for epoch in range(epochs):
                for one in inputs:
                    if should_stop():
                        raise StoppedError
                    algorithm.train(epoch, model, **one)
        gnn.zero_grad(set_to_none=True)
        return PgExplainer(explainer)

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        with torch.no_grad():
            inputs = _inputs(self._explainer.model, oracle.space.graph)
            explanation = self._explainer(**inputs)
        oracle.evaluations += 2  # the prediction and the node states
        return EdgeScores(undirected(explanation.edge_mask))


def _inputs(model: PygModel, graph: Graph) -> dict[str, Any]:
    """The arguments of PyG's explainer; its target is what the GNN predicts."""
    values: dict[str, Any] = {
        "x": graph.features,
        "edge_index": both_directions(graph),
        "edge_attributes": attributes_both_ways(graph),
    }
    with torch.no_grad():
        target: Tensor = model(**values).argmax(dim=1)
    return {**values, "target": target, "index": graph.target}
