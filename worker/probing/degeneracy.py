"""Names GNNs that pass all checks but whose explanations will say little."""

from __future__ import annotations

from torch import Tensor

from worker.probing.probe_subject import ProbeSubject

_SATURATED = 1 - 1e-6  # a smaller probability still shows how sure the GNN is


def degeneracy_warnings(subject: ProbeSubject) -> list[str]:
    """What is unusual about the GNN's classes of the probe graphs.

    These are warnings: the probe graphs are drawn at random and may not look like the GNN's data.
    """
    logits = subject.logits(subject.graphs)  # [graph or node, class]
    return [*_same_class(logits, subject.units), *_saturated(logits, subject.units)]


def _same_class(logits: Tensor, units: str) -> list[str]:
    classes = sorted(set(logits.argmax(dim=1).tolist()))
    if len(classes) > 1:
        return []
    return [
        f"same class: the GNN gives all {len(logits)} probe {units} class {classes[0]}. If it does "
        "so with your data, no edit changes its class"
    ]


def _saturated(logits: Tensor, units: str) -> list[str]:
    least_sure = float(logits.softmax(dim=1).amax(dim=1).min())
    if least_sure < _SATURATED:
        return []
    return [
        f"saturated: the GNN gives every one of {len(logits)} probe {units} some class with a "
        f"probability above {_SATURATED}. Confidences say nothing, and its gradients hardly guide "
        "a search"
    ]
