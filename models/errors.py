"""What the samplers refuse, each with what they got and what would be accepted."""

from __future__ import annotations


class RefusedError(ValueError):
    """What was asked cannot be answered, through no fault of ours; the words are for the caller."""


class UnknownNodeError(RefusedError):
    """Rules name a node that the graph does not have."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"rules freeze node {node}; the graph has nodes 0 to {nodes - 1}")


class UnknownTargetError(RefusedError):
    """A node is to be explained that the graph does not have."""

    def __init__(self, node: int, nodes: int) -> None:
        super().__init__(f"node {node} was asked for; the graph has nodes 0 to {nodes - 1}")


class NoMarkedNodeError(ValueError):
    """Something is asked about a marked node of graphs that have none."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} needs a marked node in every graph; set Graph.target")


class NoEdgeAttributesError(RefusedError):
    """A GNN that reads edge attributes is asked about graphs that have none."""

    def __init__(self) -> None:
        super().__init__("this GNN reads edge attributes and the graphs have none")


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


class NoDenseFormError(RefusedError):
    """Gradients are asked of a GNN that has layers without a dense form."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__(f"this GNN has no dense form: {', '.join(layers)} has only a sparse one")


class PluggedLayerError(RefusedError):
    """A layer from outside does not give what it says it gives."""

    def __init__(self, name: str, form: str, got: str, wanted: tuple[int, ...]) -> None:
        super().__init__(f"the plugged layer {name!r} gave {got} from {form}, expected {wanted}")


class TooLargeError(RefusedError):
    """A sampler that works on all node pairs is given a graph that has too many."""

    def __init__(self, nodes: int, allowed: int) -> None:
        super().__init__(
            f"the graph has {nodes} nodes; the sampler 'paper' takes at most {allowed}, "
            "larger graphs are explained by the sampler 'guided'"
        )
