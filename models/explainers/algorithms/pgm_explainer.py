"""PGM-Explainer: which nodes' features does the prediction depend on, by χ² tests?

Vu and Thai, "PGM-Explainer: Probabilistic Graphical Model Explanations for Graph Neural Networks",
NeurIPS 2020. The features of random nodes are set to 0; a sample counts as changed if the class's
probability falls by more than the threshold. The score of a node is the χ² statistic of "node
perturbed" against "prediction changed". PyG's version tests graphs against the wrong column of its
samples and needs pgmpy, so this one uses SciPy's test.
"""

from __future__ import annotations

import torch
from scipy.stats import chi2_contingency
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.interface import EdgeScores, edge_scores_of_nodes

SAMPLES = 200
THRESHOLD = 0.1  # of the probability, as in the paper's code
_PERTURBED = 0.5  # share of the nodes
_SAMPLES_PER_PASS = 64


class PgmExplainer:
    def __init__(self, *, samples: int = SAMPLES) -> None:
        self._samples = samples

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        graph = oracle.space.graph
        shape = (self._samples, graph.node_count)
        perturbed = torch.rand(shape, generator=generator) < _PERTURBED  # [sample, node]
        before = oracle.verify([()])[0][oracle.goal.before]
        change = before - self._probabilities(oracle, perturbed)  # [sample]
        changed = change > THRESHOLD
        if not changed.any() or changed.all():
            # The threshold tells no samples apart; as PyG for graphs, take the largest eighth.
            changed = torch.zeros(self._samples, dtype=torch.bool)
            changed[change.topk(max(1, self._samples // 8)).indices] = True
        scores = torch.tensor([_chi_square(column, changed) for column in perturbed.T])
        return edge_scores_of_nodes(graph, scores)

    def _probabilities(self, oracle: CounterfactualOracle, perturbed: Tensor) -> Tensor:
        """The class's probability for each sample: [sample]."""
        space = oracle.space.dense_form
        assert space is not None, "a large graph is refused before"
        rows = []
        for some in torch.split(perturbed, _SAMPLES_PER_PASS):
            oracle.check_stop()
            graphs = space.dense([()] * len(some))
            features = graphs.features.masked_fill(some[:, :, None], 0)
            edited = DenseGraphs(
                graphs.adjacency, features, graphs.mask, graphs.targets, graphs.edge_attributes
            )
            with torch.inference_mode():
                logits = oracle.gnn.answers(edited.to(oracle.device)).cpu()
            oracle.evaluations += len(some)
            rows.append(logits.softmax(dim=1)[:, oracle.goal.before])
        return torch.cat(rows)


def _chi_square(perturbed: Tensor, changed: Tensor) -> float:
    """The χ² statistic of two [sample] truth values; 0 if one of them is constant."""
    table = torch.bincount(2 * perturbed.long() + changed.long(), minlength=4).view(2, 2)
    if not (table.sum(dim=0).all() and table.sum(dim=1).all()):
        return 0.0
    return float(chi2_contingency(table.numpy(), correction=False).statistic)
