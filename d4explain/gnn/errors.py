"""Errors of GNNs; each says what it got and what is accepted."""

from __future__ import annotations


class RefusedError(ValueError):
    """The request cannot be answered; the message is for the caller."""


class NoMarkedNodeError(ValueError):
    """A marked node is needed, but the graphs have none."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} needs a marked node in every graph; set Graph.target")


class NoEdgeAttributesError(RefusedError):
    """The GNN reads edge attributes, but the graphs have none."""

    def __init__(self) -> None:
        super().__init__("this GNN reads edge attributes and the graphs have none")


class NoDenseFormError(RefusedError):
    """Gradients are needed, but the GNN has layers without a dense form."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__(f"this GNN has no dense form: {', '.join(layers)} has only a sparse one")


class PluginLayerError(RefusedError):
    """The output of an external layer differs from its declaration."""

    def __init__(self, name: str, form: str, got: str, wanted: tuple[int, ...]) -> None:
        super().__init__(f"the plugged layer {name!r} gave {got} from {form}, expected {wanted}")
