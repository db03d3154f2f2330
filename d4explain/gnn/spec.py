"""The spec of a GNN: a graph of layers that is validated when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from d4explain.gnn.spec_checks import check_graph, check_kept, check_output, check_widths
from d4explain.gnn.vocabulary.choices import (
    ActivationKind,
    Aggregation,
    CombineOp,
    JumpMode,
    LayerNormMode,
    PnaAggregator,
    PnaScaler,
    PoolOp,
    SageAggregation,
)
from d4explain.gnn.vocabulary.convolutions import (
    AppnpLayer,
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
from d4explain.gnn.vocabulary.operations import (
    AffineLayer,
    BroadcastLayer,
    ColumnsLayer,
    CombineLayer,
    ConstantLayer,
    EmbeddingLayer,
    NormalizeLayer,
)
from d4explain.gnn.vocabulary.roles import (
    completes_convolution,
    hop_count,
    is_convolution,
    node_of,
    output_width,
    reads_far_degrees,
    takes_edge_weights,
)
from d4explain.layer_graph import (
    EDGE_ATTRIBUTES,
    FEATURES,
    Inputs,
    LayerNode,
    Rows,
    resolve_inputs,
    rows_of_values,
)

# Users of a spec import its layers from here.
__all__ = [
    "ActivationKind",
    "ActivationLayer",
    "AddLayer",
    "AffineLayer",
    "Aggregation",
    "AppnpLayer",
    "BatchNormLayer",
    "BroadcastLayer",
    "ChebLayer",
    "ColumnsLayer",
    "CombineLayer",
    "CombineOp",
    "ConstantLayer",
    "DropoutLayer",
    "EgnnLayer",
    "EmbeddingLayer",
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
    "NormalizeLayer",
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
    # The values that each layer reads, None for the one before it; () if all are None.
    inputs: tuple[Inputs | None, ...] = ()

    def __post_init__(self) -> None:
        require_positive("features", self.features)
        if self.classes < 2:
            raise ValueError(f"classes: a classifier has at least 2; got {self.classes!r}")
        for position, layer in enumerate(self.layers):
            if not isinstance(layer, Layer):
                raise ValueError(
                    f"layers[{position}]: not a layer of the vocabulary; got {layer!r}"
                )
        if self.inputs and len(self.inputs) != len(self.layers):
            raise ValueError(f"inputs: {len(self.inputs)} for {len(self.layers)} layers")
        check_graph(self.layers, self._nodes, self.wiring)
        check_kept(self.layers, self.value_widths)
        check_widths(self.layers, self.wiring, self.value_widths, self.edge_features)
        check_output(self.layers, self.value_widths[len(self.layers)], self.classes)

    @cached_property
    def _nodes(self) -> tuple[LayerNode, ...]:
        inputs = self.inputs or (None,) * len(self.layers)
        return tuple(map(node_of, self.layers, inputs))

    @cached_property
    def wiring(self) -> tuple[Inputs, ...]:
        """The values that each layer reads, numbered as in `d4explain.layer_graph`."""
        return resolve_inputs(self._nodes)

    @cached_property
    def rows(self) -> Mapping[int, Rows]:
        """What the rows of each value stand for."""
        return rows_of_values(self._nodes, self.wiring)

    @cached_property
    def value_widths(self) -> Mapping[int, int]:
        """The width of each value."""
        widths = {EDGE_ATTRIBUTES: self.edge_features, FEATURES: self.features}
        for position, (layer, read) in enumerate(zip(self.layers, self.wiring, strict=True)):
            widths[position + 1] = output_width(layer, [widths[value] for value in read])
        return widths

    def input_widths(self, position: int) -> tuple[int, ...]:
        """The widths of the values that the layer at a position reads."""
        return tuple(self.value_widths[value] for value in self.wiring[position])

    @property
    def classifies_nodes(self) -> bool:
        return self.rows[len(self.layers)] == "node"

    @property
    def binary(self) -> bool:
        """Whether one value is the logit of class 1, and the logit of class 0 is 0."""
        return self.classes == 2 and self.value_widths[len(self.layers)] == 1

    @property
    def convolutions(self) -> int:
        """Hops on the longest path to the output; a polynomial counts as often as its degree."""
        hops = {EDGE_ATTRIBUTES: 0, FEATURES: 0}
        for position, (layer, read) in enumerate(zip(self.layers, self.wiring, strict=True)):
            before = max((hops[value] for value in read), default=0)
            hops[position + 1] = before + hop_count(layer)
        return hops[len(self.layers)]

    @property
    def receptive_field(self) -> int:
        """Hops around a node that contain everything its logits depend on.

        One more than `convolutions` if a layer is normalised by the degrees of both ends: a GCN
        reads the degrees of the farthest nodes, so it depends on their neighbours.
        """
        return self.convolutions + any(reads_far_degrees(layer) for layer in self.layers)

    @property
    def state_values(self) -> tuple[int, ...]:
        """Numbers of the values that are node states.

        A node state is the output of a convolution after its norm, activation and residual. The
        output of the GNN is none.
        """
        states = []
        for position, layer in enumerate(self.layers):
            value = position + 1
            if not is_convolution(layer):
                continue
            while value < len(self.layers) and self._completes(value):
                value += 1
            if value < len(self.layers):
                states.append(value)
        return tuple(states)

    def _completes(self, value: int) -> bool:
        """Whether the next layer reads the value and belongs to the same convolution."""
        return completes_convolution(self.layers[value]) and value in self.wiring[value]

    @property
    def state_width(self) -> int:
        """Width of all node states together."""
        return sum(self.value_widths[value] for value in self.state_values)

    @property
    def weighs_edges(self) -> bool:
        """Whether edge attributes weigh edges; such attributes must not be negative."""
        return any(
            takes_edge_weights(layer) and len(read) > 1
            for layer, read in zip(self.layers, self.wiring, strict=True)
        )

    def embedded(self, value: int) -> Mapping[int, int]:
        """Columns of the features or edge attributes that hold whole numbers, and their counts."""
        counts: dict[int, int] = {}
        for layer, read in zip(self.layers, self.wiring, strict=True):
            if isinstance(layer, EmbeddingLayer) and read == (value,):
                counts[layer.column] = min(layer.count, counts.get(layer.column, layer.count))
        return counts
