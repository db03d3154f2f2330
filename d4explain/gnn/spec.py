"""The spec of a GNN: a list of layers that is validated when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from d4explain.gnn.spec_checks import (
    check_edge_features,
    check_kept,
    check_output,
    check_pools,
    check_towers,
)
from d4explain.gnn.vocabulary.choices import (
    ActivationKind,
    Aggregation,
    JumpMode,
    LayerNormMode,
    PnaAggregator,
    PnaScaler,
    PoolOp,
    SageAggregation,
)
from d4explain.gnn.vocabulary.convolutions import (
    ChebLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GraphConvLayer,
    PnaLayer,
    SageLayer,
    TagLayer,
)
from d4explain.gnn.vocabulary.field_checks import require_positive
from d4explain.gnn.vocabulary.layers import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    DropoutLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PluginLayer,
    PoolLayer,
    ShiftedReluLayer,
)
from d4explain.gnn.vocabulary.roles import (
    completes_convolution,
    hop_count,
    is_convolution,
    is_pool,
    output_width,
    reads_far_degrees,
)

# Users of a spec import its layers from here.
__all__ = [
    "ActivationKind",
    "ActivationLayer",
    "AddLayer",
    "Aggregation",
    "BatchNormLayer",
    "ChebLayer",
    "DropoutLayer",
    "EgnnLayer",
    "GatLayer",
    "GatV2Layer",
    "GcnLayer",
    "GinLayer",
    "GinSumLayer",
    "GineLayer",
    "GineSumLayer",
    "GnnSpec",
    "GraphConvLayer",
    "GraphNormLayer",
    "JumpLayer",
    "JumpMode",
    "KeepLayer",
    "Layer",
    "LayerNormLayer",
    "LayerNormMode",
    "LinearLayer",
    "PluginLayer",
    "PnaAggregator",
    "PnaLayer",
    "PnaScaler",
    "PoolLayer",
    "PoolOp",
    "SageAggregation",
    "SageLayer",
    "ShiftedReluLayer",
    "TagLayer",
]


@dataclass(frozen=True)
class GnnSpec:
    """A classifier: `features` numbers per node in, `classes` logits per graph out.

    With a pool it classifies graphs. Without a pool it classifies the marked node of each graph.
    Two classes may come from one value z; their logits are 0 and z.
    """

    features: int
    classes: int
    layers: tuple[Layer, ...]
    edge_features: int = 0  # numbers per edge

    def __post_init__(self) -> None:
        require_positive("features", self.features)
        if self.classes < 2:
            raise ValueError(f"classes: a classifier has at least 2; got {self.classes!r}")
        for position, layer in enumerate(self.layers):
            if not isinstance(layer, Layer):
                raise ValueError(
                    f"layers[{position}]: not a layer of the vocabulary; got {layer!r}"
                )
        check_pools(self.layers)
        widths = self.widths()
        check_kept(self.layers, widths)
        check_towers(self.layers, widths)
        check_edge_features(self.layers, widths, self.edge_features)
        check_output(self.layers, widths[-1], self.classes)

    @property
    def classifies_nodes(self) -> bool:
        return not any(is_pool(layer) for layer in self.layers)

    @property
    def binary(self) -> bool:
        """Whether one value is the logit of class 1, and the logit of class 0 is 0."""
        return self.classes == 2 and self.widths()[-1] == 1

    @property
    def convolutions(self) -> int:
        """Total hops of all layers; a polynomial counts as often as its degree."""
        return sum(hop_count(layer) for layer in self.layers)

    @property
    def receptive_field(self) -> int:
        """Hops around a node that contain everything its logits depend on.

        One more than `convolutions` if a layer is normalised by the degrees of both ends: a GCN
        reads the degrees of the farthest nodes, so it depends on their neighbours.
        """
        return self.convolutions + any(reads_far_degrees(layer) for layer in self.layers)

    @property
    def state_positions(self) -> tuple[int, ...]:
        """Positions of the layers whose inputs are node states.

        A node state is the output of a convolution after its norm, activation and residual.
        """
        positions = []
        after_convolution = False
        for position, layer in enumerate(self.layers):
            if after_convolution and not completes_convolution(layer):
                positions.append(position)
                after_convolution = False
            after_convolution = after_convolution or is_convolution(layer)
        return tuple(positions)

    @property
    def state_width(self) -> int:
        """Width of all node states together."""
        widths = self.widths()
        return sum(widths[position] for position in self.state_positions)

    def widths(self) -> tuple[int, ...]:
        """The input width of each layer, then the output width of the last one."""
        widths = [self.features]
        kept: list[int] = []
        for layer in self.layers:
            if isinstance(layer, KeepLayer):
                kept.append(widths[-1])
            widths.append(output_width(layer, widths[-1], kept))
        return tuple(widths)
