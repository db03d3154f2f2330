"""What a GNN refuses, each with what it got and what it accepts."""

from __future__ import annotations


class RefusedError(ValueError):
    """What was asked cannot be answered, through no fault of ours; the words are for the caller."""


class NoMarkedNodeError(ValueError):
    """Something is asked about a marked node of graphs that have none."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} needs a marked node in every graph; set Graph.target")


class NoEdgeAttributesError(RefusedError):
    """A GNN that reads edge attributes is asked about graphs that have none."""

    def __init__(self) -> None:
        super().__init__("this GNN reads edge attributes and the graphs have none")


class NoDenseFormError(RefusedError):
    """Gradients are asked of a GNN that has layers without a dense form."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__(f"this GNN has no dense form: {', '.join(layers)} has only a sparse one")


class PluggedLayerError(RefusedError):
    """A layer from outside does not give what it says it gives."""

    def __init__(self, name: str, form: str, got: str, wanted: tuple[int, ...]) -> None:
        super().__init__(f"the plugged layer {name!r} gave {got} from {form}, expected {wanted}")
