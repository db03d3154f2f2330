from __future__ import annotations

import hashlib
from typing import Any

import pytest
import torch

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_spec import GnnSpecDocument, parse_spec
from d4explain.gnn.network import Gnn
from store.catalogue.gnns import content_hash
from worker.loading.spec_conversion import spec_from_document

HEAD: list[dict[str, Any]] = [{"type": "pool", "op": "mean"}, {"type": "linear", "out": 3}]
KEEP: dict[str, Any] = {"type": "keep"}
CAT: dict[str, Any] = {"type": "jump", "mode": "cat"}


def document(*layers: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"features": 5, "classes": 3, "layers": [*layers, *HEAD], **others}


LAYERS: dict[str, list[dict[str, Any]]] = {
    "gcn": [{"type": "gcn", "out": 8}],
    "gin": [{"type": "gin", "out": 8, "hidden": 7}],
    "gin with trained eps": [{"type": "gin", "out": 8, "hidden": 7, "train_eps": True}],
    "sage": [{"type": "sage", "out": 8}],
    "sage without bias": [{"type": "sage", "out": 8, "bias": False}],
    "sage with the maximum": [{"type": "sage", "out": 8, "aggr": "max"}],
    "graph_conv": [{"type": "graph_conv", "out": 8, "aggr": "max"}],
    "graph_conv without bias": [{"type": "graph_conv", "out": 8, "bias": False}],
    "gat": [{"type": "gat", "out": 8}, {"type": "batch_norm"}],
    "gat with heads": [{"type": "gat", "out": 8, "heads": 3}, {"type": "batch_norm"}],
    "gatv2": [{"type": "gatv2", "out": 8, "heads": 2}, {"type": "batch_norm"}],
    "gatv2 with the mean of heads": [
        {"type": "gatv2", "out": 8, "heads": 2, "concat": False, "negative_slope": 0},
        {"type": "batch_norm"},
    ],
    "pna": [{"type": "pna", "out": 8, "aggregators": ["mean", "std"], "scalers": ["identity"]}],
    "pna with towers": [
        {"type": "pna", "out": 6, "aggregators": ["max"], "scalers": ["linear"], "towers": 3}
    ],
    "pna with divided input": [
        {"type": "linear", "out": 6},
        {
            "type": "pna",
            "out": 8,
            "aggregators": ["sum", "min"],
            "towers": 2,
            "divide_input": True,
            "scalers": ["amplification", "attenuation", "inverse_linear"],
        },
        {"type": "batch_norm"},
    ],
    "tag": [{"type": "tag", "out": 8}],
    "tag without bias": [{"type": "tag", "out": 8, "k": 1, "bias": False}],
    "cheb": [{"type": "cheb", "out": 8, "k": 3}],
    "cheb without bias": [{"type": "cheb", "out": 8, "k": 2, "bias": False}],
    "gin around another nn": [{"type": "gin_sum"}, {"type": "linear", "out": 8}],
    "egnn": [
        {"type": "linear", "out": 8},
        {"type": "keep"},
        {"type": "egnn", "out": 8, "alpha": 0.1, "beta": 0},
        {"type": "srelu"},
        {"type": "egnn", "out": 6, "alpha": 0.1, "beta": 0.2},
        {"type": "srelu"},
    ],
    "linear": [{"type": "linear", "out": 6}],
    "linear without bias": [{"type": "linear", "out": 6, "bias": False}],
    "activation": [{"type": "gcn", "out": 4}, {"type": "activation", "kind": "elu"}],
    "dropout": [{"type": "gcn", "out": 4}, {"type": "dropout", "p": 0.5}],
    "batch norm": [{"type": "gcn", "out": 4}, {"type": "batch_norm"}],
    "batch norm of the features": [{"type": "batch_norm"}, {"type": "gcn", "out": 4}],
    "layer norm": [{"type": "gcn", "out": 4}, {"type": "layer_norm", "mode": "node"}],
    "layer norm of graphs": [{"type": "gcn", "out": 4}, {"type": "layer_norm", "mode": "graph"}],
    "graph norm": [{"type": "gcn", "out": 4}, {"type": "graph_norm"}],
    "residual": [{"type": "keep"}, {"type": "gcn", "out": 5}, {"type": "add"}],
    "jump of one": [{"type": "keep"}, {"type": "jump", "mode": "max"}],
    "jump": [
        {"type": "keep"},
        {"type": "gcn", "out": 8},
        {"type": "keep"},
        {"type": "jump", "mode": "cat"},
        {"type": "batch_norm"},
        {"type": "gcn", "out": 13},
        {"type": "keep"},
        {"type": "jump", "mode": "cat"},
    ],
    "jump of the last": [
        {"type": "keep"},
        {"type": "gcn", "out": 5},
        {"type": "keep"},
        {"type": "jump", "mode": "max", "last": 1},
    ],
    "jump to the maximum": [
        {"type": "gcn", "out": 8},
        {"type": "keep"},
        {"type": "gin", "out": 8, "hidden": 3},
        {"type": "keep"},
        {"type": "linear", "out": 2},
        {"type": "jump", "mode": "max"},
        {"type": "batch_norm"},
    ],
    "graph of layers": [
        {"type": "gcn", "out": 8, "name": "h"},
        {"type": "normalize"},
        {"type": "affine", "scale": 0.5, "shift": 1, "name": "scaled"},
        {"type": "constant", "out": 8, "name": "row"},
        {"type": "combine", "op": "multiply", "inputs": ["scaled", "row"], "name": "product"},
        {"type": "columns", "start": 1, "stop": 4, "inputs": ["h"], "name": "part"},
        {"type": "embedding", "count": 6, "out": 2, "column": 4, "inputs": ["x"], "name": "type"},
        {"type": "combine", "op": "concat", "inputs": ["product", "part", "type"]},
        {"type": "appnp", "k": 4, "alpha": 0.1, "name": "spread"},
        {"type": "pool", "op": "sum", "name": "whole"},
        {"type": "broadcast", "name": "of_graph"},
        {"type": "combine", "op": "add", "inputs": ["of_graph", "spread"]},
    ],
    "edge values": [
        {"type": "embedding", "count": 4, "out": 5, "inputs": ["edge_attr"], "name": "bond"},
        {
            "type": "gine",
            "out": 8,
            "hidden": 7,
            "project": False,
            "inputs": ["x", "bond"],
            "name": "h",
        },
        {"type": "gat", "out": 4, "edges": True, "inputs": ["h", "bond"], "name": "attended"},
        {"type": "columns", "start": 1, "stop": 2, "inputs": ["edge_attr"], "name": "weight"},
        {"type": "gcn", "out": 4, "inputs": ["attended", "weight"]},
    ],
    "gine": [{"type": "gine", "out": 8, "hidden": 7, "train_eps": True}],
    "gine_sum": [{"type": "gine_sum"}, {"type": "gine_sum", "train_eps": True}],
    "gine without projection": [
        {"type": "linear", "out": 2},
        {"type": "gine_sum", "project": False},
        {"type": "gine", "out": 8, "hidden": 7, "project": False},
    ],
    "gat with edges": [{"type": "gat", "out": 4, "heads": 2, "edges": True}],
    "gatv2 with edges": [{"type": "gatv2", "out": 4, "heads": 2, "edges": True}],
    "several": [
        {"type": "gin", "out": 8, "hidden": 7},
        {"type": "batch_norm"},
        {"type": "gcn", "out": 9},
        {"type": "activation", "kind": "relu"},
    ],
}


ATOMS: dict[str, Any] = {"kind": "smiles", "atoms": ["C", "N", "O", "F", "Cl"]}
GATED: dict[str, Any] = {"type": "pool", "op": "attention"}


@pytest.mark.parametrize("pool", [HEAD[0], GATED], ids=["mean", "attention"])
@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS.keys())
def test_expected_tensors_are_those_of_the_network(
    layers: list[dict[str, Any]], pool: dict[str, Any]
) -> None:
    reads = any("gine" in layer["type"] or layer.get("edges") for layer in layers)
    reads = reads or any("edge_attr" in layer.get("inputs", []) for layer in layers)
    edges = {"edge_features": 2} if reads else {}
    spec = parse_spec({**document(), "layers": [*layers, pool, HEAD[1]], **edges})
    state = Gnn(spec_from_document(spec)).state_dict()
    found = {
        name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in state.items()
    }
    assert {name: tuple(tensor) for name, tensor in expected_tensors(spec).items()} == found
    assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in state.values())


@pytest.mark.parametrize("task", ["graph", "node"])
def test_two_classes_may_have_one_logit(task: str) -> None:
    pool = [HEAD[0]] if task == "graph" else []
    layers = [{"type": "gcn", "out": 4}, *pool, {"type": "linear", "out": 1}]
    sent = {"task": task, "head": "binary", "features": 5, "classes": 2, "layers": layers}
    spec = spec_from_document(parse_spec(sent))
    assert spec.binary
    assert spec.classifies_nodes == (task == "node")


def pna(**changes: Any) -> dict[str, Any]:
    return {"type": "pna", "out": 8, "aggregators": ["mean"], "scalers": ["linear"], **changes}


ONE: list[dict[str, Any]] = [HEAD[0], {"type": "linear", "out": 1}]
NODE_HEADS: dict[str, dict[str, Any]] = {
    "linear": {"type": "linear", "out": 3},
    "gcn": {"type": "gcn", "out": 3},
    "gin": {"type": "gin", "out": 3, "hidden": 4},
    "sage": {"type": "sage", "out": 3},
    "graph_conv": {"type": "graph_conv", "out": 3},
    "gat with the mean of heads": {"type": "gat", "out": 3, "heads": 2, "concat": False},
    "gatv2 with heads side by side": {"type": "gatv2", "out": 1, "heads": 3},
}


def of_nodes(*layers: dict[str, Any]) -> dict[str, Any]:
    return {"task": "node", "features": 5, "classes": 3, "layers": list(layers)}


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("head", NODE_HEADS.values(), ids=NODE_HEADS.keys())
def test_a_node_classifier_ends_in_a_linear_layer_or_a_convolution(
    head: dict[str, Any], alone: bool
) -> None:
    spec = parse_spec(of_nodes(*([] if alone else LAYERS["several"]), head))
    gnn = Gnn(spec_from_document(spec))
    assert gnn.spec.classifies_nodes
    expected = {name: tensor.shape for name, tensor in expected_tensors(spec).items()}
    assert {name: tuple(value.shape) for name, value in gnn.state_dict().items()} == expected


def test_an_explicit_default_task_does_not_change_the_hash() -> None:
    silent, said = parse_spec(document()), parse_spec(document(task="graph"))
    assert silent == said
    # what was registered before there were tasks keeps its denoisers
    assert (
        content_hash(silent, "weights")
        == hashlib.sha256(
            b'{"features":5,"classes":3,"layers":[{"type":"pool","op":"mean"},'
            b'{"type":"linear","out":3,"bias":true}]}\nweights'
        ).hexdigest()
    )


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown layer": (document({"type": "transformer", "out": 8}), "/layers/0", "transformer"),
    "pna of nothing": (document(pna(aggregators=[])), "/layers/0/aggregators", "at least 1"),
    "unknown aggregator": (document(pna(aggregators=["var"])), "/layers/0/aggregators/0", "'std'"),
    "a scaler twice": (document(pna(scalers=["linear"] * 2)), "/layers/0/scalers", "may appear"),
    "towers without a share": (
        document(pna(towers=3)), "/layers/0/towers", "3 towers cannot share the 8 values of out",
    ),
    "towers that do not divide": (
        document(pna(towers=2, divide_input=True)), "/layers/0/towers", "cannot divide the 5",
    ),
    "too many hops": (document({"type": "tag", "out": 4, "k": 17}), "/layers/0/k", "sent: 17"),
    "no hop": (document({"type": "cheb", "out": 4, "k": 1}), "/layers/0/k", "sent: 1"),
    "more than all": (
        document(KEEP, {"type": "egnn", "out": 4, "alpha": 0.7, "beta": 0.5}),
        "/layers/1/beta",
        "alpha 0.7 + beta 0.5 is more than 1",
    ),
    "egnn without keep": (
        document({"type": "egnn", "out": 4, "alpha": 0.1, "beta": 0.1}), "/layers/0", "no keep",
    ),
    "egnn of another width": (
        document(KEEP, {"type": "gcn", "out": 4}, KEEP,
                 {"type": "egnn", "out": 4, "alpha": 0.1, "beta": 0.1}),
        "/layers/3",
        "egnn gets 4 values per node but 5 were kept first",
    ),
    "gin_sum after the pool": (
        {**document(), "layers": [HEAD[0], {"type": "gin_sum"}, HEAD[1]]}, "/layers/1", "before",
    ),
    "one logit of many classes": (
        {**document(), "head": "binary", "layers": ONE}, "/classes", "a binary head has 2 classes",
    ),
    "many logits of a binary head": (
        document(head="binary", classes=2), "/layers/1/out", "3 values; a binary head gives 1",
    ),
    "one logit unsaid": (
        {**document(classes=2), "layers": ONE}, "/layers/1/out", 'set "head": "binary"',
    ),
    "too many heads": (document({"type": "gat", "out": 2, "heads": 33}), "/layers/0/heads", "32"),
    "heads too wide together": (
        document({"type": "gatv2", "out": 600, "heads": 2, "concat": False}),
        "/layers/0/heads",
        "2 heads of 600 values are 1200 values",
    ),
    "rising slope": (
        document({"type": "gat", "out": 2, "negative_slope": 1.5}),
        "/layers/0/negative_slope",
        "sent: 1.5",
    ),
    "layer norm without mode": (document({"type": "layer_norm"}), "/layers/0/mode", "required"),
    "graph norm after the pool": (
        {**document(), "layers": [HEAD[0], {"type": "graph_norm"}, HEAD[1]]}, "/layers/1", "before",
    ),
    "layer norm of graphs after the pool": (
        {**document(), "layers": [HEAD[0], {"type": "layer_norm", "mode": "graph"}, HEAD[1]]},
        "/layers/1",
        "before",
    ),
    "add without keep": (document({"type": "add"}, KEEP), "/layers/0", "no keep before it"),
    "add after the pool": (
        {**document(), "layers": [KEEP, HEAD[0], {"type": "add"}, HEAD[1]]}, "/layers/2", "before",
    ),
    "add of another width": (
        document(KEEP, {"type": "gcn", "out": 4}, {"type": "add"}),
        "/layers/2",
        "add gets 4 values per node but 5 were kept last",
    ),
    "unknown aggregation": (
        document({"type": "sage", "out": 8, "aggr": "add"}), "/layers/0/aggr", "'mean' or 'max'",
    ),
    "layer without type": (document({"out": 8}), "/layers/0", "type"),
    "missing width": (document({"type": "gcn"}), "/layers/0/out", "required"),
    "too wide": (document({"type": "gcn", "out": 1025}), "/layers/0/out", "1024 (sent: 1025)"),
    "zero width": (document({"type": "gin", "out": 4, "hidden": 0}), "/layers/0/hidden", "sent: 0"),
    "unknown field": (document({"type": "gcn", "out": 4, "heads": 2}), "/layers/0/heads", "Extra"),
    "text for a number": (document({"type": "gcn", "out": "4"}), "/layers/0/out", "integer"),
    "true for a number": (document({"type": "gcn", "out": True}), "/layers/0/out", "integer"),
    "unknown activation": (
        document({"type": "activation", "kind": "swish"}),
        "/layers/0/kind",
        "'relu', 'leaky_relu'",
    ),
    "slope of another activation": (
        document({"type": "activation", "kind": "relu", "slope": 0.1}),
        "/layers/0/slope",
        "is for leaky_relu only, not for relu",
    ),
    "dropout of everything": (document({"type": "dropout", "p": 1}), "/layers/0/p", "less than 1"),
    "input of no layer": (
        document({"type": "gcn", "out": 4, "inputs": ["h"]}), "/layers/0/inputs/0",
        "'h' is not the name of an earlier layer, x or edge_attr",
    ),
    "a name twice": (
        document({"type": "gcn", "out": 4, "name": "h"}, {"type": "gcn", "out": 4, "name": "h"}),
        "/layers/1/name",
        "'h' is the name of another value",
    ),
    "a name of the features": (
        document({"type": "gcn", "out": 4, "name": "x"}), "/layers/0/name", "another value",
    ),
    "nodes and graphs joined": (
        document({"type": "gcn", "out": 4, "name": "h"}, {"type": "pool", "op": "sum", "name": "g"},
                 {"type": "combine", "op": "add", "inputs": ["h", "g"]}),
        "/layers/2",
        "joins rows of different kinds: graph and node",
    ),
    "sum of two widths": (
        document({"type": "gcn", "out": 4, "name": "h"},
                 {"type": "combine", "op": "add", "inputs": ["h", "x"]}),
        "/layers/1/inputs",
        "add needs inputs of one width or 1; got 4, 5",
    ),
    "difference of three": (
        document({"type": "combine", "op": "subtract", "inputs": ["x", "x", "x"]}),
        "/layers/0/inputs",
        "subtract needs two inputs; got 3",
    ),
    "broadcast of nodes": (document({"type": "broadcast"}), "/layers/0", "needs graph values"),
    "embedding of a layer": (
        document({"type": "gcn", "out": 4}, {"type": "embedding", "count": 3, "out": 2}),
        "/layers/1",
        "an embedding reads x or edge_attr",
    ),
    "embedding of no column": (
        document({"type": "embedding", "count": 3, "out": 2, "column": 5}),
        "/layers/0/column",
        "is 5; there are 5 columns",
    ),
    "columns beyond the last": (
        document({"type": "columns", "start": 2, "stop": 6}), "/layers/0/stop", "of 5 values",
    ),
    "wide edge weights": (
        document({"type": "gcn", "out": 4, "inputs": ["x", "edge_attr"]}, edge_features=2),
        "/layers/0/inputs/1",
        "has 1 value per edge; got 2",
    ),
    "weights that are nodes": (
        document({"type": "gcn", "out": 4, "inputs": ["x", "x"]}),
        "/layers/0",
        "needs edge values as its second input",
    ),
    "weights of a sage": (
        document({"type": "sage", "out": 4, "inputs": ["x", "edge_attr"]}, edge_features=1),
        "/layers/0",
        "takes 1 input; got 2",
    ),
    "inputs of a keep": (document({**KEEP, "inputs": ["x"]}), "/layers/0", "takes no inputs"),
    "too many layers": (document(*[{"type": "gcn", "out": 4}] * 255), "/layers", "at most 256"),
    "one class": (document(classes=1), "/classes", "sent: 1"),
    "too many classes": (document(classes=257), "/classes", "256"),
    "no features": (document(features=0), "/features", "sent: 0"),
    "features of another deployment": (document(features=4097), "/features", "at most 4096"),
    "no pool": (
        {**document(), "layers": [{"type": "gcn", "out": 4}, HEAD[1]]},
        "/layers",
        'has 0 pool layers; a graph classifier has at least one; a node classifier has none and '
        'needs "task": "node"',
    ),
    "unknown task": (document(task="edge"), "/task", "'graph' or 'node' (sent: 'edge')"),
    "pool of a node classifier": (of_nodes({"type": "gcn", "out": 4}, *HEAD), "/layers/1", "pool"),
    "graph norm of a node classifier": (
        of_nodes({"type": "gcn", "out": 4}, {"type": "graph_norm"}, HEAD[1]),
        "/layers/1",
        "reads the whole graph",
    ),
    "layer norm of graphs of a node classifier": (
        of_nodes({"type": "layer_norm", "mode": "graph"}, {"type": "gcn", "out": 3}),
        "/layers/0",
        "reads the whole graph",
    ),
    "node classifier of other classes": (
        of_nodes({"type": "gat", "out": 3, "heads": 2}),
        "/layers/0/out",
        "the last gat layer gives 6 values but classes is 3",
    ),
    "node classifier that ends in a jump": (
        of_nodes({"type": "gcn", "out": 3}, KEEP, CAT),
        "/layers/2",
        "must be a convolution, linear, combine or columns",
    ),
    "two pools": (document(HEAD[0]), "/layers/1", "needs nodes, but comes after the pool"),
    "convolution after the pool": (
        {**document(), "layers": [*HEAD, {"type": "gcn", "out": 4}, HEAD[1]]},
        "/layers/2",
        "before",
    ),
    "jump without keep": (
        document({"type": "gcn", "out": 4}, {"type": "jump", "mode": "cat"}, {"type": "keep"}),
        "/layers/1",
        "no keep before it",
    ),
    "jump of more than was kept": (
        document(KEEP, {"type": "jump", "mode": "cat", "last": 2}),
        "/layers/1/last", "1 values were kept",
    ),
    "jump without mode": (document(KEEP, {"type": "jump"}), "/layers/1/mode", "required"),
    "unknown jump": (
        document({"type": "keep"}, {"type": "jump", "mode": "lstm"}),
        "/layers/1/mode",
        "'cat' or 'max'",
    ),
    "maximum of different widths": (
        document({"type": "keep"}, {"type": "gcn", "out": 4}, {"type": "keep"},
                 {"type": "jump", "mode": "max"}),
        "/layers/3/mode",
        "one width; got 5, 4",
    ),
    "jumps that grow without end": (
        document({"type": "gcn", "out": 1024}, *[KEEP, CAT] * 9),
        "/layers/10",
        "8192 add up to 16384 values per node; a jump returns at most 8192",
    ),
    "jump after the pool": (
        {**document(), "layers": [KEEP, HEAD[0], CAT, HEAD[1]]},
        "/layers/2",
        "before",
    ),
    "keep after the pool": (
        {**document(), "layers": [HEAD[0], {"type": "keep"}, HEAD[1]]}, "/layers/1", "before",
    ),
    "ends in a jump": (
        {**document(), "layers": [{"type": "linear", "out": 3}, {"type": "keep"},
                                  {"type": "jump", "mode": "cat"}, HEAD[0]]},
        "/layers/2",
        "must be linear, combine or columns",
    ),
    "ends in a convolution": (
        {**document(), "layers": [{"type": "gcn", "out": 3}, HEAD[0]]},
        "/layers/0",
        "must be linear, combine or columns",
    ),
    "nothing to learn": (
        {**document(), "layers": [HEAD[0], {"type": "dropout", "p": 0.1}]},
        "/layers",
        "missing",
    ),
    "edge attributes that nobody reads": (
        document({"type": "gat", "out": 4}, edge_features=2), "/edge_features", "no layer reads",
    ),
    "edge attributes that are not there": (
        document({"type": "gcn", "out": 4}, {"type": "gine_sum"}),
        "/edge_features",
        "is 0, but gine_sum at position 1 reads",
    ),
    "edge attributes of another width": (
        document({"type": "gine", "out": 4, "hidden": 4, "project": False}, edge_features=2),
        "/layers/0/project",
        "2 edge attributes would be added to 5 values",
    ),
    "too many edge attributes": (document(edge_features=65), "/edge_features", "equal to 64"),
    "bonds without edge attributes": (
        document(featuriser={**ATOMS, "bonds": ["single"]}), "/featuriser/bonds", "takes 0 edge",
    ),
    "edge attributes without bonds": (
        document({"type": "gine_sum"}, edge_features=2, featuriser=ATOMS),
        "/featuriser/bonds",
        "has 0 kinds of bonds; the GNN takes 2",
    ),
    "bonds without the single one": (
        document({"type": "gine_sum"}, edge_features=1, featuriser={**ATOMS, "bonds": ["double"]}),
        "/featuriser/bonds",
        "lacks 'single'",
    ),
    "a bond twice": (
        document({"type": "gine_sum"}, edge_features=2,
                 featuriser={**ATOMS, "bonds": ["single", "single"]}),
        "/featuriser/bonds/1",
        "already at position 0",
    ),
    "edge values that take gigabytes": (
        document(
            {"type": "linear", "out": 1024, "inputs": ["edge_attr"]},
            *[{"type": "linear", "out": 1024}] * 7,
            {"type": "linear", "out": 1024, "name": "e"},
            {"type": "gine_sum", "inputs": ["x", "e"]},
            edge_features=2,
        ),
        "/layers",
        "compute 9,216 values per edge together; at most 8,192 are accepted",
    ),
    "other number of classes": (document(classes=4), "/layers/1/out", "gives 3 values but"),
    "too few class names": (document(class_names=["a", "b"]), "/class_names", "2 names for 3"),
    "unprintable class name": (document(class_names=["a", "b", "c\0"]), "/class_names/2", "match"),
    "not finite": (document({"type": "dropout", "p": float("nan")}), "/layers/0/p", ""),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "pointer", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_name_the_place_and_the_limit(sent: dict[str, Any], pointer: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec(sent, max_features=4096)
    assert refused.value.pointer == pointer
    assert said in refused.value.faults[0].detail


@pytest.mark.parametrize("sent", [None, 3, [], "gcn", {}])
def test_anything_but_a_spec_is_refused(sent: object) -> None:
    with pytest.raises(InvalidInput):
        parse_spec(sent)


def test_pointers_start_where_the_spec_is() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec(document({"type": "gcn", "out": 0}), pointer="/spec")
    assert refused.value.pointer == "/spec/layers/0/out"


def test_specs_without_edge_attributes_keep_their_hash() -> None:
    """So that GNNs without edge attributes keep the hash that they had."""
    assert "edge" not in parse_spec(document(*LAYERS["gat"])).model_dump_json()
    spec = parse_spec(document(*LAYERS["gat with edges"], edge_features=2))
    assert GnnSpecDocument.model_validate(spec.model_dump(mode="json")) == spec
    bonds = {**ATOMS, "bonds": ["single", "double"]}
    with_bonds = parse_spec(document(*LAYERS["gat with edges"], edge_features=2, featuriser=bonds))
    assert content_hash(spec, "w") != content_hash(with_bonds, "w")


def test_a_spec_survives_storage() -> None:
    spec = parse_spec(document(*LAYERS["several"], class_names=["a", "b", "c"]))
    assert GnnSpecDocument.model_validate(spec.model_dump(mode="json")) == spec


def test_a_node_classifier_returns_values_of_nodes() -> None:
    layers = [{"type": "linear", "out": 2, "inputs": ["edge_attr"]}]
    spec = {"task": "node", "features": 3, "edge_features": 2, "classes": 2, "layers": layers}
    with pytest.raises(InvalidInput, match="the last layer gives edge values; the task is node"):
        parse_spec(spec)
