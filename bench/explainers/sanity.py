"""Does each explainer find the edges that are known to decide?

In BA-Shapes and Tree-Cycle the class of a motif's node rests on its motif. For methods that score
edges: ROC AUC of the edges of the node's own motif against all others of its neighbourhood, over
the edges of all nodes together as PGExplainer's authors measure it, and as a mean over the nodes.
For methods that edit: the share of removed edges that are in the motif, which CF-GNNExplainer's
authors call accuracy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from bench.counterfactuals.instances import CPU
from bench.data.splits import DataMissingError
from bench.data.tasks import Task, data_folder
from bench.progress import OnProgress
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.explainers.catalogue import ExplainerName, make_explainer
from models.explainers.curve import counterfactual_curve
from models.explainers.interface import EdgeScores
from models.graphs.edits import EditRules, EditSpace
from models.graphs.neighbourhoods import NodeInstance

DATASETS = ("ba_shapes", "tree_cycle")
KEYS = ("method", "seed")
_FILES = {"ba_shapes": "BA_shapes.npz", "tree_cycle": "Tree_Cycle.npz"}
# What the authors report for their method on these data sets, with their GNNs.
PUBLISHED: dict[tuple[str, str], tuple[float, str]] = {
    ("ba_shapes", "gnnexplainer"): (0.925, "Ying et al. 2019"),
    ("tree_cycle", "gnnexplainer"): (0.948, "Ying et al. 2019"),
    ("ba_shapes", "saliency"): (0.882, "GRAD in Ying et al. 2019"),
    ("tree_cycle", "saliency"): (0.905, "GRAD in Ying et al. 2019"),
    ("ba_shapes", "pgexplainer"): (0.963, "Luo et al. 2020"),
    ("tree_cycle", "pgexplainer"): (0.987, "Luo et al. 2020"),
    ("ba_shapes", "pgm-explainer"): (0.965, "Vu and Thai 2020, share of nodes"),
    ("ba_shapes", "cf-gnnexplainer"): (0.96, "Lucic et al. 2022"),
    ("tree_cycle", "cf-gnnexplainer"): (0.94, "Lucic et al. 2022"),
}


@dataclass(frozen=True)
class SanityRow:
    """The figures of a saved row; provenance is added separately."""

    dataset: str
    method: str
    nodes: int
    auc: float | None  # over all edges together; None for methods that edit
    auc_per_node: float | None
    removed_in_motif: float | None  # share of the removed edges; None for methods that score
    edits: float | None  # mean number of edits of the flips
    flipped: float | None  # share of the nodes, within 0.3 of the edges
    motif_share: float  # of all edges: what random scores would find
    published: float | None
    source: str | None
    cpu_seconds: float  # per node, without training
    train_seconds: float


@dataclass(frozen=True)
class MotifNode:
    """A correctly classified node of a motif, and the edges of its motif."""

    instance: NodeInstance
    in_motif: Tensor  # [edge] bool


def motif_nodes(task: Task, gnn: Gnn, count: int) -> list[MotifNode]:
    """The first test and validation nodes of motifs that the GNN classifies correctly."""
    whole = task.whole
    if whole is None or task.name not in _FILES:
        raise DataMissingError(f"{task.name} has no known motifs; expected {', '.join(_FILES)}.")
    motifs = nx.Graph(_motif_edges(task.name))
    found = []
    for instance in (*whole.test, *whole.validation):
        node = int(instance.nodes[0])
        label = int(whole.data.labels[node])
        if label == 0 or node not in motifs:
            continue
        if int(predict(gnn, [instance.graph], CPU)[0].argmax()) != label:
            continue
        own = nx.node_connected_component(motifs, node)
        ends = instance.nodes[instance.graph.edges].T.tolist()
        found.append(
            MotifNode(
                instance,
                torch.tensor([motifs.has_edge(*pair) and pair[0] in own for pair in ends]),
            )
        )
    return found[:count]


def _motif_edges(dataset: str) -> list[tuple[int, int]]:
    with np.load(data_folder() / _FILES[dataset], allow_pickle=False) as arrays:
        edges: list[tuple[int, int]] = arrays["edge_index"].T[arrays["edge_gt"]].tolist()
    return edges


def sanity_row(
    task: Task,
    gnn: Gnn,
    name: ExplainerName,
    *,
    nodes: int,
    seed: int,
    on_progress: OnProgress,
) -> SanityRow:
    """Explains motif nodes; raises DataMissingError for a data set without known motifs."""
    cases = motif_nodes(task, gnn, nodes)
    started = time.process_time()
    explainer = make_explainer(name, gnn, task.train.graphs, seed=seed, device=CPU)
    train_seconds, started = time.process_time() - started, time.process_time()
    scores: list[Tensor] = []
    removed: list[bool] = []
    flips: list[int] = []
    for index, case in enumerate(cases):
        rules = case.instance.rules(EditRules(max_ratio=0.3, add=False))
        space = EditSpace.of(case.instance.graph, rules)
        before = int(predict(gnn, [case.instance.graph], CPU)[0].argmax())
        oracle = CounterfactualOracle(gnn, space, FlipGoal(before, None), CPU)
        generator = torch.Generator().manual_seed(seed + index)
        explanation = explainer.explain(oracle, generator)
        if isinstance(explanation, EdgeScores):
            scores.append(explanation.edges)
        else:
            flip = counterfactual_curve(oracle, explanation, generator).smallest_flip
            if flip is not None:
                flips.append(len(flip.edits))
                positions = _edge_positions(space)
                removed += case.in_motif[[positions[pair] for pair in flip.edits]].tolist()
        on_progress(f"{task.name} {name}", index + 1, len(cases))
    seconds = (time.process_time() - started) / len(cases)
    truths = [case.in_motif for case in cases]
    truth = torch.cat(truths)
    published, source = PUBLISHED.get((task.name, name), (None, None))
    return SanityRow(
        dataset=task.name,
        method=name,
        nodes=len(cases),
        auc=roc_auc(torch.cat(scores), truth) if scores else None,
        auc_per_node=_mean_auc(scores, truths) if scores else None,
        removed_in_motif=sum(removed) / len(removed) if removed else None,
        edits=sum(flips) / len(flips) if flips else None,
        flipped=None if scores else len(flips) / len(cases),
        motif_share=float(truth.double().mean()),
        published=published,
        source=source,
        cpu_seconds=seconds,
        train_seconds=train_seconds,
    )


def roc_auc(scores: Tensor, positive: Tensor) -> float:
    """Area under the ROC curve by ranks; ties count as half."""
    _, inverse, counts = torch.unique(scores.double(), return_inverse=True, return_counts=True)
    above = counts.cumsum(0) - counts
    ranks = (above + (counts + 1) / 2)[inverse]  # mean rank of equal scores, from 1
    high, low = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - high * (high + 1) / 2) / (high * low))


def _mean_auc(scores: Sequence[Tensor], truths: Sequence[Tensor]) -> float:
    areas = [
        roc_auc(one, truth)
        for one, truth in zip(scores, truths, strict=True)
        if truth.any() and not truth.all()
    ]
    return sum(areas) / len(areas)


def _edge_positions(space: EditSpace) -> dict[int, int]:
    """Position among the graph's edges of each pair of the space that is an edge."""
    position_of = {
        pair: index for index, pair in enumerate(map(tuple, space.graph.edges.T.tolist()))
    }
    ends = zip(space.sources.tolist(), space.targets.tolist(), strict=True)
    return {pair: position_of[end] for pair, end in enumerate(ends) if bool(space.present[pair])}
