"""Errors of the explainers; each message says what was sent and what is accepted."""

from __future__ import annotations

from d4explain.gnn.errors import RefusedError


class UnknownNodeError(RefusedError):
    """The edit rules name a node that the graph does not have."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"the rules freeze node {node}; the graph has nodes 0 to {nodes - 1}")


class UnknownTargetError(RefusedError):
    """The node to explain is not in the graph."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"unknown node {node}; the graph has nodes 0 to {nodes - 1}")


class UnknownClassError(RefusedError):
    """The target class is not a class of the GNN."""

    def __init__(self, target_class: int, classes: int) -> None:
        super().__init__(f"unknown class {target_class}; the GNN has classes 0 to {classes - 1}")


class TooManyTypesError(RefusedError):
    """The node features give more types than global counterfactuals can count."""

    def __init__(self, types: int, allowed: int) -> None:
        super().__init__(
            f"the node features of the reference set give {types:,} node types; global "
            f"counterfactuals accept at most {allowed:,}"
        )


class TooLargeError(RefusedError):
    """The graph is too large for a sampler that works on all node pairs."""

    def __init__(self, nodes: int, allowed: int, sampler: str) -> None:
        super().__init__(
            f"the graph has {nodes} nodes; the sampler {sampler!r} takes at most {allowed}; "
            "use the sampler 'guided' for larger graphs"
        )


class NoGradientsError(RefusedError):
    """The explainer needs gradients or node states, which the GNN does not give."""

    def __init__(self, explainer: str) -> None:
        super().__init__(
            f"the explainer {explainer!r} needs the gradients of the GNN; a GNN behind a URL or "
            "with a plug-in layer without a dense form has none"
        )


class NothingToLearnError(RefusedError):
    """An explainer that learns found nothing to learn from in the reference set."""

    def __init__(self, explainer: str, graphs: int, lack: str) -> None:
        super().__init__(
            f"the explainer {explainer!r} cannot learn from {graphs} reference graphs: {lack}"
        )


class NoEdgeAttributesError(RefusedError):
    """The class explainer builds graphs without edge attributes, which the GNN needs."""

    def __init__(self, explainer: str) -> None:
        super().__init__(
            f"the explainer {explainer!r} builds edges without attributes, and this GNN reads "
            "them; use 'd4' or 'mined'"
        )
