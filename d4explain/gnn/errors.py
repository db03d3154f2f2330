"""Errors of GNNs; each says what it got and what is accepted."""

from __future__ import annotations


class RefusedError(ValueError):
    """The request cannot be answered; the message is for the caller."""


class NoMarkedNodeError(ValueError):
    """The graphs lack the marked node that is needed."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} needs a marked node in every graph; set Graph.target")


class NoEdgeAttributesError(RefusedError):
    """The GNN reads edge attributes, but the graphs have none."""

    def __init__(self) -> None:
        super().__init__("this GNN reads edge attributes, but the graphs have none")


class NotAnEmbeddedNumberError(RefusedError):
    """A column that the GNN embeds holds something else than the number of an embedding."""

    def __init__(self, column: int, value: float, count: int) -> None:
        super().__init__(
            f"column {column} holds {value:g}; this GNN embeds whole numbers from 0 to {count - 1}"
        )


class NoDenseFormError(RefusedError):
    """Gradients are needed, but the GNN has layers without a dense form."""

    def __init__(self, layers: list[str]) -> None:
        super().__init__(
            f"this GNN has no dense form; layers with a sparse form only: {', '.join(layers)}"
        )


class PluginLayerError(RefusedError):
    """The output of a plug-in layer differs from its declaration."""

    def __init__(self, name: str, form: str, got: str, expected: tuple[int, ...]) -> None:
        super().__init__(f"plug-in layer {name!r} returned {got} from {form}; expected {expected}")
