"""What a GNN is made of: a closed list of layers that checks itself when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from d4explain.gnn.vocabulary import (
    ActivationKind,
    ActivationLayer,
    AddLayer,
    Aggregation,
    BatchNormLayer,
    ChebLayer,
    DropoutLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GinSumLayer,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    JumpMode,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LayerNormMode,
    LinearLayer,
    PluginLayer,
    PnaAggregator,
    PnaLayer,
    PnaScaler,
    PoolLayer,
    PoolOp,
    SageAggregation,
    SageLayer,
    ShiftedReluLayer,
    TagLayer,
    reads_edge_attributes,
    require_positive,
)

# The vocabulary is a part of the spec and is imported from here.
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

    With a pool it classifies graphs; without, the marked node of each graph. Two classes may come
    from one value z: their logits are 0 and z.
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
        pools = [i for i, layer in enumerate(self.layers) if _pools(layer)]
        if len(pools) > 1:
            raise ValueError(f"layers: at most one may be a pool; got {len(pools)} (at {pools})")
        for position, layer in enumerate(self.layers):
            if not isinstance(layer, _ON_NODES) and not _spans_graph(layer):
                continue
            if pools and position > pools[0]:
                raise ValueError(
                    f"layers[{position}]: {type(layer).__name__} needs nodes, "
                    f"but layers[{pools[0]}] has pooled them"
                )
            if not pools and _spans_graph(layer):
                raise ValueError(
                    f"layers[{position}]: {layer!r} reads the whole graph; a node classifier, "
                    "which has no pool, must answer from a node's neighbourhood"
                )
        self._check_kept()
        self._check_towers()
        self._check_edge_features()
        last = next((layer for layer in reversed(self.layers) if isinstance(layer, _WIDTH)), None)
        ends_in_nodes = not pools and isinstance(last, _WIDENING)
        whole = isinstance(last, PluginLayer) and last.pools
        if not isinstance(last, LinearLayer) and not ends_in_nodes and not whole:
            allowed = "a linear layer" if pools else "a convolution or a linear layer"
            raise ValueError(
                f"layers: the last one that sets the width must be {allowed}; got "
                f"{type(last).__name__ if last else 'none at all'}"
            )
        width = self.widths()[-1]
        if width != self.classes and not self.binary:
            raise ValueError(
                f"layers: the last {type(last).__name__} must give {self.classes} classes; "
                f"got {width}"
            )

    @property
    def classifies_nodes(self) -> bool:
        return not any(_pools(layer) for layer in self.layers)

    @property
    def binary(self) -> bool:
        """Whether one value is the logit of class 1, and that of class 0 is 0."""
        return self.classes == 2 and self.widths()[-1] == 1

    @property
    def convolutions(self) -> int:
        """How often neighbours are looked at, hence how many hops away an answer comes from.

        Once by most layers; a polynomial looks as often as its degree says.
        """
        return sum(_looks(layer) for layer in self.layers)

    @property
    def state_positions(self) -> tuple[int, ...]:
        """The layers that get what a convolution made of the nodes, normed and activated.

        With a residual connection, what it was added to.
        """
        positions = []
        fresh = False
        for position, layer in enumerate(self.layers):
            if fresh and not isinstance(layer, _FINISHING):
                positions.append(position)
                fresh = False
            fresh = fresh or isinstance(layer, _CONVOLUTIONS)
        return tuple(positions)

    @property
    def state_width(self) -> int:
        """Numbers that all convolutions together say about a node."""
        widths = self.widths()
        return sum(widths[position] for position in self.state_positions)

    @property
    def sight(self) -> int:
        """Hops around a node that hold all its logits depend on.

        As many as there are convolutions, and one more where one of them is normalised by both
        ends' degrees: a GCN reads the degrees of the farthest nodes it sees, hence whether they
        have neighbours. The others read nothing of them but their values: a mean or an
        attention divides by what the gathering node has. What a plugged layer reads is not known.
        """
        normalised = any(isinstance(layer, _NORMALISED | PluginLayer) for layer in self.layers)
        return self.convolutions + normalised

    def widths(self) -> tuple[int, ...]:
        """How many numbers enter each layer, and at the end how many leave the last one."""
        widths = [self.features]
        kept: list[int] = []
        for layer in self.layers:
            width = widths[-1]
            match layer:
                case GcnLayer() | GinLayer() | SageLayer() | GraphConvLayer() | LinearLayer():
                    width = layer.out
                case GineLayer():
                    width = layer.out
                case PnaLayer() | TagLayer() | ChebLayer() | EgnnLayer():
                    width = layer.out
                case GatLayer() | GatV2Layer() | PluginLayer():
                    width = layer.width
                case KeepLayer():
                    kept.append(width)
                case JumpLayer(mode="cat"):
                    width = sum(layer.joined(kept))
                case JumpLayer(mode="max"):
                    width = layer.joined(kept)[0]
                case _:
                    pass
            widths.append(width)
        return tuple(widths)

    def _check_towers(self) -> None:
        for position, (layer, width) in enumerate(zip(self.layers, self.widths(), strict=False)):
            if isinstance(layer, PnaLayer) and layer.divide_input and width % layer.towers:
                raise ValueError(
                    f"layers[{position}]: {layer.towers} towers cannot divide {width} values"
                )

    def _check_edge_features(self) -> None:
        if self.edge_features < 0:
            raise ValueError(f"edge_features must not be negative; got {self.edge_features!r}")
        reads = [reads_edge_attributes(layer) for layer in self.layers]
        if any(reads) != bool(self.edge_features):
            names = "no layer reads" if self.edge_features else f"layers[{reads.index(True)}] reads"
            raise ValueError(f"{names} edge attributes, but edge_features is {self.edge_features}")
        for position, (layer, width) in enumerate(zip(self.layers, self.widths(), strict=False)):
            added = isinstance(layer, GineLayer | GineSumLayer) and not layer.project
            if added and width != self.edge_features:
                raise ValueError(
                    f"layers[{position}]: {self.edge_features} edge attributes cannot be added to "
                    f"{width} values without project"
                )

    def _check_kept(self) -> None:
        """What reads kept values finds them, of widths that can be joined."""
        kept: list[int] = []
        for position, layer in enumerate(self.layers):
            if isinstance(layer, KeepLayer):
                kept.append(position)
            if not isinstance(layer, JumpLayer | AddLayer | EgnnLayer):
                continue
            name = type(layer).__name__
            if not kept:
                raise ValueError(f"layers[{position}]: {name} has no KeepLayer before it")
            widths = [self.widths()[keep] for keep in kept]
            if isinstance(layer, AddLayer) and widths[-1] != self.widths()[position]:
                raise ValueError(
                    f"layers[{position}]: {name} gets {self.widths()[position]} values per node "
                    f"but {widths[-1]} were kept last"
                )
            if isinstance(layer, EgnnLayer) and widths[0] != self.widths()[position]:
                raise ValueError(
                    f"layers[{position}]: {name} gets {self.widths()[position]} values per node "
                    f"but {widths[0]} were kept first"
                )
            if isinstance(layer, JumpLayer):
                self._check_jump(position, layer, widths)

    def _check_jump(self, position: int, layer: JumpLayer, kept: list[int]) -> None:
        if layer.last is not None and layer.last > len(kept):
            raise ValueError(
                f"layers[{position}]: the last {layer.last} kept values are joined, "
                f"but {len(kept)} were kept"
            )
        widths = layer.joined(kept)
        if layer.mode == "max" and len(set(widths)) > 1:
            raise ValueError(
                f"layers[{position}]: the maximum needs kept values of one width; got {widths}"
            )


_NORMALISED = GcnLayer | TagLayer | ChebLayer | EgnnLayer
_WIDENING = (
    _NORMALISED
    | GinLayer
    | GineLayer
    | SageLayer
    | GraphConvLayer
    | GatLayer
    | GatV2Layer
    | PnaLayer
    | PluginLayer
)
_CONVOLUTIONS = _WIDENING | GinSumLayer | GineSumLayer
_ON_NODES = _CONVOLUTIONS | KeepLayer | AddLayer | JumpLayer
_WIDTH = _WIDENING | LinearLayer | JumpLayer
# What may follow a convolution before its values are called finished.
_FINISHING = (
    BatchNormLayer
    | LayerNormLayer
    | GraphNormLayer
    | ActivationLayer
    | ShiftedReluLayer
    | DropoutLayer
    | AddLayer
)


def _looks(layer: Layer) -> int:
    match layer:
        case TagLayer():
            return layer.k
        case ChebLayer():
            return layer.k - 1
        case PluginLayer():
            return layer.hops or 0
        case _:
            return int(isinstance(layer, _CONVOLUTIONS))


def _pools(layer: Layer) -> bool:
    return isinstance(layer, PoolLayer) or (isinstance(layer, PluginLayer) and layer.pools)


def _spans_graph(layer: Layer) -> bool:
    """Whether every node's values come from all nodes of the graph."""
    if isinstance(layer, PluginLayer):
        return layer.hops is None and not layer.pools
    return isinstance(layer, GraphNormLayer) or layer == LayerNormLayer("graph")
