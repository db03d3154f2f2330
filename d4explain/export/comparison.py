"""Compares an export with the original model, and names the first step that differs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from d4explain.errors import CommandError
from d4explain.export.gnn_builder import fused
from d4explain.export.model_runners import Original
from d4explain.export.tracing.trace import trace
from d4explain.export.translators.translation import FinalActivation
from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn

TOLERANCE = 1e-4  # relative to the largest value; float32 sums depend on their order


def compare(
    original: Original,
    gnn: Gnn,
    final_activation: FinalActivation | None,
    graphs: Sequence[Graph],
) -> float:
    """The largest difference of outputs; raises if a step or the outputs differ.

    Equal outputs are not enough: behind a saturated softmax, wrong logits look right.
    """
    batch = to_sparse(graphs)
    try:
        expected = original.outputs(batch)
        with torch.no_grad():
            exported = _outputs_like_original(gnn, batch, final_activation)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise CommandError(f"the model fails on sample graphs: {reason}") from error
    if expected.dim() == 1 and exported.shape[1] == 1:
        expected = expected[:, None]
    if expected.shape != exported.shape:
        raise CommandError(
            f"the model returns the shape {tuple(expected.shape)}, "
            f"its export the shape {tuple(exported.shape)}"
        )
    difference = float((expected - exported).abs().max())
    cause = None if original.model is gnn else _first_difference(original, gnn, batch)
    if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):
        reason = cause or "each step alone agrees; rounding errors add up"
        raise CommandError(
            f"the export differs from the model by {difference:.2g}; nothing was written"
            f"\n  {reason}"
        )
    if cause is not None:
        raise CommandError(
            f"the outputs of model and export agree on the sample graphs, but a step differs; "
            f"nothing was written\n  {cause}"
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


def _first_difference(original: Original, gnn: Gnn, graphs: SparseGraphs) -> str | None:
    """Which step gives other values on these graphs, with a summary of both; None if none does.

    Every step of the export reads the values that the model computed, so that rounding errors do
    not add up and small values are compared as strictly as large ones.
    """
    steps = fused(trace(original, graphs).operations)
    if [one.layer for one in steps] != list(gnn.spec.layers):
        return "the model takes other steps on other graphs; its steps must not depend on the graph"
    differences: list[str] = []

    def check(number: int, values: Tensor) -> Tensor:
        step = steps[number - 1]
        if step.result is None:  # the model does not compute this value
            return values
        expected = step.result.cpu().float()
        if expected.numel() == values.numel():
            expected = expected.reshape(values.shape)
        if not _is_close(values, expected):
            differences.append(
                f"first at {step.where}: the model gives {_summary(expected)}, "
                f"its export {_summary(values)}"
            )
        return expected if expected.shape == values.shape else values

    with torch.no_grad():
        gnn.sparse_values(graphs, check)
    return differences[0] if differences else None


def _is_close(values: Tensor, expected: Tensor) -> bool:
    if values.shape != expected.shape:
        return False
    largest = expected[expected.isfinite()].abs().max() if expected.isfinite().any() else 0.0
    gaps = (values - expected).abs()
    same = (values == expected) | (values.isnan() & expected.isnan())
    return bool((same | (gaps <= TOLERANCE * float(largest))).all())


def _summary(values: Tensor) -> str:
    shape = " by ".join(str(size) for size in values.shape)
    spread = f"from {float(values.min()):.4g} to {float(values.max()):.4g}"
    return f"{shape} values {spread}, mean {float(values.mean()):.4g}"
