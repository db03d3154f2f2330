"""Compares an export with the original model on graphs of many sizes and densities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from d4explain.errors import CommandError
from d4explain.export.model_runners import ModelRunner
from d4explain.export.translation import FinalActivation
from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn

TOLERANCE = 1e-4  # relative to the largest output; float32 sums depend on their order
SAMPLE_GRAPHS = 24


def sample_graphs(features: int, edge_features: int = 0) -> list[Graph]:
    """Random graphs of 1 to 24 nodes, sparse to dense, some with isolated nodes."""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for size in range(1, SAMPLE_GRAPHS + 1):
        density = torch.rand((), generator=generator)
        pairs = torch.triu(torch.rand(size, size, generator=generator) < density, diagonal=1)
        node_features = torch.randn(size, features, generator=generator)
        edges = pairs.nonzero().T.contiguous()
        edge_attributes = None
        if edge_features:
            edge_attributes = torch.randn(edges.shape[1], edge_features, generator=generator)
        graphs.append(Graph(node_features, edges, edge_attributes=edge_attributes))
    return graphs


def compare(
    model: nn.Module,
    run_model: ModelRunner,
    gnn: Gnn,
    final_activation: FinalActivation | None,
    graphs: Sequence[Graph],
) -> float:
    """The largest difference of outputs in eval mode; raises if it exceeds rounding errors."""
    batch = to_sparse(graphs)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            original = run_model(batch)
            exported = _outputs_like_original(gnn, batch, final_activation)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"the model fails on sample graphs: {reason}") from error
    finally:
        model.train(was_training)
    if not isinstance(original, Tensor):
        raise CommandError(f"the model returns a {type(original).__name__}; expected a tensor")
    if original.dim() == 1 and exported.shape[1] == 1:
        original = original[:, None]
    if original.shape != exported.shape:
        raise CommandError(
            f"the model returns the shape {tuple(original.shape)}, "
            f"its export the shape {tuple(exported.shape)}"
        )
    difference = float((original - exported).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(original.abs().max())):
        raise CommandError(
            f"the export differs from the model by {difference:.2g}; nothing was written"
        )
    return difference


def logits(gnn: Gnn, graphs: SparseGraphs) -> Tensor:
    """Logits of the graphs, or of all nodes for a node classifier."""
    return gnn.node_logits(graphs) if gnn.spec.classifies_nodes else gnn(graphs)


def _outputs_like_original(
    gnn: Gnn, graphs: SparseGraphs, final_activation: FinalActivation | None
) -> Tensor:
    """The outputs of the export: one column for a binary head, with the final activation."""
    outputs = logits(gnn, graphs)
    if gnn.spec.binary:
        outputs = outputs[:, 1:]
    match final_activation:
        case "log_softmax":
            outputs = outputs.log_softmax(dim=1)
        case "softmax":
            outputs = outputs.softmax(dim=1)
        case "sigmoid":
            outputs = outputs.sigmoid()
        case None:
            pass
    return outputs
