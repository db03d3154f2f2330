"""What the explainers refuse, each with what they got and what they accept."""

from __future__ import annotations

from d4explain.gnn.errors import RefusedError


class UnknownNodeError(RefusedError):
    """Rules name a node that the graph does not have."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"rules freeze node {node}; the graph has nodes 0 to {nodes - 1}")


class UnknownTargetError(RefusedError):
    """A node is to be explained that the graph does not have."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"node {node} was asked for; the graph has nodes 0 to {nodes - 1}")


class UnknownClassError(RefusedError):
    """A class is asked for that the GNN does not know."""

    def __init__(self, asked: int, classes: int) -> None:
        super().__init__(f"class {asked} was asked for; the GNN knows classes 0 to {classes - 1}")


class NoReferenceGraphsError(RefusedError):
    """A class explanation takes its node features from reference graphs and got none."""

    def __init__(self, target_class: int) -> None:
        super().__init__(
            f"no reference graph to draw node features from for class {target_class}; "
            "pass graphs that the GNN gives this class, or all reference graphs"
        )


class TooLargeError(RefusedError):
    """A sampler that works on all node pairs is given a graph that has too many."""

    def __init__(self, nodes: int, allowed: int) -> None:
        super().__init__(
            f"the graph has {nodes} nodes; the sampler 'paper' takes at most {allowed}, "
            "larger graphs are explained by the sampler 'guided'"
        )
