"""Exports give the same outputs as the original; unsupported models write nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch_geometric.nn import (
    MLP,
    BatchNorm,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    GraphNorm,
    LayerNorm,
    PNAConv,
    SAGEConv,
    Sequential,
    TAGConv,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.aggr import AttentionalAggregation, MaxAggregation

from d4explain.errors import CommandError
from d4explain.export.exporter import export
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GcnLayer, GnnSpec, JumpLayer, KeepLayer, LinearLayer, PoolLayer

torch.set_num_threads(1)


def mlp(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, out))


def pyg_model(conv: nn.Module, *rest: nn.Module | Callable[..., Tensor]) -> Sequential:
    """4 features → conv → rest → mean pool → 3 classes."""
    return Sequential(
        "x, edge_index, batch",
        [
            (conv, "x, edge_index -> x"),
            *rest,
            (global_mean_pool, "x, batch -> x"),
            nn.Linear(8, 3),
        ],
    )


def pna(
    aggregators: Sequence[str] = ("mean", "std"),
    scalers: Sequence[str] = ("identity",),
    **rest: int,
) -> PNAConv:
    degrees = torch.tensor([1, 4, 2])
    return PNAConv(4, 8, list(aggregators), list(scalers), degrees, **rest)


def rich_model() -> Sequential:
    torch.manual_seed(1)
    model = Sequential(
        "x, edge_index, batch",
        [
            (GINConv(mlp(4, 8), train_eps=True, eps=0.3), "x, edge_index -> x"),
            BatchNorm(8),
            nn.LeakyReLU(),
            (GCNConv(8, 8), "x, edge_index -> h"),
            nn.Sequential(nn.ELU(), nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh()),
            nn.Identity(),
            (global_max_pool, "h, batch -> g"),
            nn.Dropout(0.5),
            (torch.relu, "g -> g"),
            nn.Linear(8, 3),
        ],
    )
    for norm in (model[1].module, model[4][2]):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return model


def test_an_exported_model_gives_the_same_outputs(tmp_path: Path) -> None:
    model = rich_model()
    written = export(model, tmp_path, ["house", "cycle", "grid"])
    assert written.largest_difference < 1e-5
    assert written.graphs_compared >= 20

    document = json.loads(written.spec.read_text())
    kinds = [layer["type"] for layer in document["layers"]]
    assert kinds == [
        "gin", "batch_norm", "activation", "gcn", "activation", "linear", "batch_norm",
        "activation", "pool", "dropout", "activation", "linear",
    ]  # fmt: skip
    assert document["layers"][0] == {"type": "gin", "out": 8, "hidden": 8, "train_eps": True}
    assert document["class_names"] == ["house", "cycle", "grid"]
    assert (document["features"], document["classes"]) == (4, 3)
    tensors = load_file(written.weights)
    assert torch.equal(tensors["layers.0.conv.eps"], torch.tensor([0.3]))
    assert torch.equal(tensors["layers.11.linear.weight"], model[9].weight)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(GCNConv(4, 8), nn.ReLU(), GCNConv(8, 3)),
        Sequential(
            "x, edge_index",
            [
                (GATConv(4, 8, heads=2), "x, edge_index -> x"),
                nn.ELU(),
                (GATConv(16, 3, heads=2, concat=False), "x, edge_index -> x"),
            ],
        ),
        Gnn(GnnSpec(4, 3, (GcnLayer(8), LinearLayer(3)))),
    ],
    ids=["torch", "pyg", "ours"],
)
def test_a_model_without_a_pool_is_exported_as_a_node_classifier(
    model: nn.Module, tmp_path: Path
) -> None:
    written = export(model, tmp_path)
    assert written.largest_difference < 1e-5
    document = json.loads(written.spec.read_text())
    assert (document["task"], document["features"], document["classes"]) == ("node", 4, 3)


def test_export_does_not_change_the_training_mode(tmp_path: Path) -> None:
    model = rich_model().train()
    export(model, tmp_path)
    assert model.training


def test_a_torch_sequential_of_layers_is_exported(tmp_path: Path) -> None:
    model = nn.Sequential(GCNConv(4, 8), nn.ReLU(), MaxAggregation(), mlp(8, 3))
    written = export(model, tmp_path)
    kinds = [layer["type"] for layer in json.loads(written.spec.read_text())["layers"]]
    assert kinds == ["gcn", "activation", "pool", "linear", "activation", "linear"]


@pytest.mark.parametrize("bias", [True, False])
def test_sage_is_exported(bias: bool, tmp_path: Path) -> None:
    written = export(pyg_model(SAGEConv(4, 8, bias=bias)), tmp_path)
    layers = json.loads(written.spec.read_text())["layers"]
    assert layers[0] == {"type": "sage", "out": 8, "bias": bias, "aggr": "mean"}


ATTENTION_DEFAULTS = {"concat": True, "negative_slope": 0.2, "edges": False}


@pytest.mark.parametrize(
    ("conv", "expected"),
    [
        (SAGEConv(4, 8, aggr="max"), {"type": "sage", "out": 8, "bias": True, "aggr": "max"}),
        (GraphConv(4, 8, "sum"), {"type": "graph_conv", "out": 8, "bias": True, "aggr": "add"}),
        (GraphConv(4, 8), {"type": "graph_conv", "out": 8, "bias": True, "aggr": "add"}),
        (
            GraphConv(4, 8, aggr="max", bias=False),
            {"type": "graph_conv", "out": 8, "bias": False, "aggr": "max"},
        ),
        (
            GATConv(4, 4, heads=2, dropout=0.5),
            {"type": "gat", "out": 4, "heads": 2, **ATTENTION_DEFAULTS},
        ),
        (
            GATv2Conv(4, 8, heads=2, concat=False, negative_slope=0.1),
            {
                **{"type": "gatv2", "out": 8, "heads": 2, **ATTENTION_DEFAULTS},
                **{"concat": False, "negative_slope": 0.1},
            },
        ),
        (
            GATv2Conv(4, 8, share_weights=True),
            {"type": "gatv2", "out": 8, "heads": 1, **ATTENTION_DEFAULTS},
        ),
        (
            SAGEConv(4, 8, aggr="sum", bias=False),
            {"type": "graph_conv", "out": 8, "bias": False, "aggr": "add"},
        ),
        (
            SAGEConv(4, 8, aggr="add", root_weight=False),
            {"type": "graph_conv", "out": 8, "bias": True, "aggr": "add"},
        ),
        (
            SAGEConv(4, 8, root_weight=False),
            {"type": "sage", "out": 8, "bias": True, "aggr": "mean"},
        ),
        (GCNConv(4, 8, bias=False), {"type": "gcn", "out": 8}),
        (
            GATConv(4, 4, heads=2, bias=False),
            {"type": "gat", "out": 4, "heads": 2, **ATTENTION_DEFAULTS},
        ),
        (
            GATv2Conv(4, 8, heads=2, concat=False, bias=False),
            {"type": "gatv2", "out": 8, "heads": 2, **ATTENTION_DEFAULTS, "concat": False},
        ),
        (TAGConv(4, 8, 2), {"type": "tag", "out": 8, "k": 2, "bias": True}),
        (ChebConv(4, 8, 3, bias=False), {"type": "cheb", "out": 8, "k": 3, "bias": False}),
        (
            pna(["mean", "std", "sum"], ["identity", "attenuation"], towers=2, divide_input=True),
            {
                "type": "pna",
                "out": 8,
                "aggregators": ["mean", "std", "sum"],
                "scalers": ["identity", "attenuation"],
                "towers": 2,
                "divide_input": True,
            },
        ),
        (GINConv(nn.Linear(4, 8), eps=0.5), {"type": "gin_sum", "train_eps": False}),
    ],
    ids=str,
)
def test_convolutions_are_exported(
    conv: nn.Module, expected: dict[str, object], tmp_path: Path
) -> None:
    written = export(pyg_model(conv), tmp_path)
    assert json.loads(written.spec.read_text())["layers"][0] == expected


def edge_model(*convs: nn.Module) -> Sequential:
    """4 features per node and 2 per edge."""
    return Sequential(
        "x, edge_index, edge_attr, batch",
        [
            *((conv, "x, edge_index, edge_attr -> x") for conv in convs),
            (global_mean_pool, "x, batch -> x"),
            nn.Linear(8, 3),
        ],
    )


@pytest.mark.parametrize(
    ("conv", "expected"),
    [
        (
            GINEConv(mlp(4, 8), train_eps=True, edge_dim=2),
            {"type": "gine", "out": 8, "hidden": 8, "train_eps": True, "project": True},
        ),
        (
            GINEConv(nn.Sequential(nn.Linear(4, 8), nn.Tanh()), eps=0.4, edge_dim=2),
            {"type": "gine_sum", "train_eps": False, "project": True},
        ),
        (
            GATConv(4, 4, heads=2, edge_dim=2),
            {"type": "gat", "out": 4, "heads": 2, **ATTENTION_DEFAULTS, "edges": True},
        ),
        (
            GATv2Conv(4, 8, edge_dim=2),
            {"type": "gatv2", "out": 8, "heads": 1, **ATTENTION_DEFAULTS, "edges": True},
        ),
    ],
    ids=str,
)
def test_convolutions_that_read_edge_attributes_are_exported(
    conv: nn.Module, expected: dict[str, object], tmp_path: Path
) -> None:
    written = export(edge_model(conv), tmp_path)
    document = json.loads(written.spec.read_text())
    assert document["layers"][0] == expected
    assert document["edge_features"] == 2


def test_edge_attributes_as_wide_as_the_values_need_no_projection(tmp_path: Path) -> None:
    written = export(edge_model(GINEConv(mlp(4, 8))), tmp_path)
    document = json.loads(written.spec.read_text())
    assert document["layers"][0]["project"] is False
    assert document["edge_features"] == 4


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ((LayerNorm(8), "x, batch -> x"), {"type": "layer_norm", "mode": "graph"}),
        ((LayerNorm(8, mode="node"), "x -> x"), {"type": "layer_norm", "mode": "node"}),
        ((nn.LayerNorm(8), "x -> x"), {"type": "layer_norm", "mode": "node"}),
        ((GraphNorm(8), "x, batch -> x"), {"type": "graph_norm"}),
        ((LayerNorm(8, affine=False), "x, batch -> x"), {"type": "layer_norm", "mode": "graph"}),
        ((nn.LayerNorm(8, bias=False), "x -> x"), {"type": "layer_norm", "mode": "node"}),
        ((nn.BatchNorm1d(8, affine=False), "x -> x"), {"type": "batch_norm"}),
        ((nn.BatchNorm1d(8, eps=0.1), "x -> x"), {"type": "batch_norm"}),
    ],
    ids=str,
)
def test_norms_are_exported(
    norm: tuple[nn.Module, str], expected: dict[str, object], tmp_path: Path
) -> None:
    with torch.no_grad():
        for tensor in norm[0].parameters():
            tensor.normal_(generator=torch.Generator().manual_seed(0))
    written = export(pyg_model(GCNConv(4, 8), norm), tmp_path)
    assert json.loads(written.spec.read_text())["layers"][1] == expected


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (nn.SiLU(), {"kind": "silu"}),
        (nn.SELU(), {"kind": "selu"}),
        (nn.Softplus(), {"kind": "softplus"}),
        (nn.PReLU(), {"kind": "leaky_relu", "slope": 0.25}),
        (nn.LeakyReLU(0.2), {"kind": "leaky_relu", "slope": 0.2}),
        (nn.LeakyReLU(), {"kind": "leaky_relu"}),
    ],
    ids=str,
)
def test_activations_are_exported(
    activation: nn.Module, expected: dict[str, object], tmp_path: Path
) -> None:
    written = export(pyg_model(GCNConv(4, 8), activation), tmp_path)
    assert json.loads(written.spec.read_text())["layers"][1] == {"type": "activation", **expected}


def gate_model(gate: nn.Module, inner: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(GCNConv(4, 8), AttentionalAggregation(gate, inner), nn.Linear(8, 3))


@pytest.mark.parametrize("bias", [True, False])
def test_attention_pooling_is_exported(bias: bool, tmp_path: Path) -> None:
    written = export(gate_model(nn.Linear(8, 1, bias=bias)), tmp_path)
    pool = json.loads(written.spec.read_text())["layers"][1]
    assert pool == {"type": "pool", "op": "attention"}


def test_a_gnn_of_the_vocabulary_is_exported_unchanged(tmp_path: Path) -> None:
    jump = (KeepLayer(), GcnLayer(8), KeepLayer(), JumpLayer("cat"))
    gnn = Gnn(GnnSpec(4, 2, (GcnLayer(8), *jump, PoolLayer("sum"), LinearLayer(2))))
    written = export(gnn, tmp_path)
    layers = json.loads(written.spec.read_text())["layers"]
    assert layers[3:5] == [{"type": "keep"}, {"type": "jump", "mode": "cat"}]
    assert load_file(written.weights).keys() == gnn.state_dict().keys()


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        (pyg_model(TransformerConv(4, 8)), ["layer 0 (TransformerConv)", "supported", "GINConv"]),
        (pyg_model(GCNConv(4, 8, improved=True)), ["layer 0 (GCNConv)", "improved=True"]),
        (pyg_model(GCNConv(4, 8, add_self_loops=False)), ["add_self_loops=False"]),
        (pyg_model(GCNConv(4, 8, normalize=False)), ["normalize=False"]),
        (pyg_model(GCNConv(4, 8, aggr="max")), ["aggr='max'"]),
        (pyg_model(GCNConv(-1, 8)), ["input width is not known"]),
        (pyg_model(GraphConv(4, 8, aggr="min")), ["layer 0 (GraphConv)", "aggr='min'"]),
        (pyg_model(GATConv(4, 8, residual=True)), ["layer 0 (GATConv)", "residual=True"]),
        (edge_model(GATConv(4, 8, edge_dim=2, fill_value="max")), ["fill_value='max'", "'mean'"]),
        (edge_model(GATv2Conv(4, 8, edge_dim=2, fill_value=0.0)), ["only fill_value='mean'"]),
        (pyg_model(GATConv(4, 8, edge_dim=2)), ["layer 0 (GATConv)", "(edge_dim), but gets none"]),
        (edge_model(SAGEConv(4, 8)), ["layer 0 (SAGEConv)"]),
        (edge_model(GINEConv(mlp(4, 8), aggr="max")), ["layer 0 (GINEConv)", "aggr='max'"]),
        (
            edge_model(GINEConv(mlp(4, 8), edge_dim=2), GATConv(8, 8, edge_dim=3)),
            ["layer 1 (GATConv)", "cannot be multiplied", "x2 and 3x8"],
        ),
        (pyg_model(GATConv((4, 4), 8)), ["in_channels=(4, 4)"]),
        (pyg_model(GATConv(4, 8, negative_slope=2)), ["negative_slope=2"]),
        (pyg_model(GATv2Conv(4, 8, add_self_loops=False)), ["add_self_loops=False"]),
        (pyg_model(GATv2Conv(-1, 8)), ["input width is not known"]),
        (pyg_model(GCNConv(4, 8), nn.LayerNorm((2, 8))), ["normalized_shape=(2, 8)"]),
        (pyg_model(GCNConv(4, 8), GraphNorm(8, eps=1e-3)), ["(GraphNorm)", "eps=0.001"]),
        (pyg_model(GCNConv(4, 8), (GraphNorm(8), "x -> x")), ["(GraphNorm)", "needs batch"]),
        (gate_model(nn.Linear(8, 8)), ["must return 1 value", "got Linear(in_features=8"]),
        (gate_model(nn.Sequential(nn.Linear(8, 1), nn.Mish())), ["layer 1.gate_nn.1 (Mish)"]),
        (pyg_model(GraphConv(-1, 8)), ["input width is not known"]),
        (pyg_model(SAGEConv(4, 8, normalize=True)), ["normalize=True"]),
        (pyg_model(SAGEConv(-1, 8)), ["input width is not known"]),
        (pyg_model(GINConv(mlp(4, 8), aggr="max")), ["layer 0 (GINConv)", "aggr='max'"]),
        (pyg_model(GINConv(TransformerConv(4, 8))), ["layer 0.nn (TransformerConv)", "GATv2Conv"]),
        (pyg_model(pna(edge_dim=3)), ["layer 0 (PNAConv)", "edge_dim=3"]),
        (pyg_model(pna(pre_layers=2)), ["only pre_layers=1"]),
        (pyg_model(pna(["mean", "var"])), ["aggregators=['mean', 'VarAggregation']", "std"]),
        (pyg_model(pna(scalers=["linear"] * 2)), ["scalers=['linear', 'linear']", "each once"]),
        (pyg_model(TAGConv(4, 8, normalize=False)), ["layer 0 (TAGConv)", "normalize=False"]),
        (pyg_model(ChebConv(4, 8, 1)), ["layer 0 (ChebConv)", "K=1; only K of 2 or more"]),
        (pyg_model(ChebConv(4, 8, 2, normalization="rw")), ["normalization='rw'", "'sym'"]),
        (pyg_model(GCNConv(4, 8), nn.LogSoftmax(1)), ["(LogSoftmax) can only be the last"]),
        (pyg_model(GCNConv(4, 8), nn.Softmax(0)), ["(Softmax)", "dim=0"]),
        (pyg_model(GCNConv(4, 8), nn.LeakyReLU(-0.2)), ["(LeakyReLU)", "negative_slope=-0.2"]),
        (pyg_model(GCNConv(4, 8), nn.GELU("tanh")), ["approximate='tanh'"]),
        (pyg_model(GCNConv(4, 8), nn.Softplus(2)), ["layer 1 (Softplus)", "beta=2"]),
        (pyg_model(GCNConv(4, 8), nn.PReLU(8)), ["layer 1 (PReLU)", "num_parameters=8"]),
        (pyg_model(SAGEConv(4, 8, aggr="lstm")), ["layer 0 (SAGEConv)", "aggr='lstm'"]),
        (pyg_model(GCNConv(4, 8), nn.BatchNorm1d(8, track_running_stats=False)), ["(BatchNorm1d)"]),
        (pyg_model(GCNConv(4, 8), mlp(8, 8)[0], torch.sin), ["the function sin"]),
        (pyg_model(GCNConv(4, 8)).double(), ["float64", "model.float()"]),
        (nn.Sequential(GCNConv(4, 8), GraphNorm(8), nn.Linear(8, 3)), ["reads the whole graph"]),
        (
            nn.Sequential(GCNConv(4, 9), MaxAggregation(), nn.Linear(8, 3)),
            ["layer 2 (Linear)", "x9 and 8x3"],
        ),
        (nn.Sequential(nn.ReLU(), MaxAggregation()), ["no layer of the model tells"]),
        (nn.Linear(4, 3), ["model (Linear)", "not DataBatch"]),
    ],
)  # fmt: skip
def test_an_unsupported_model_is_refused_with_the_reason_and_writes_nothing(
    model: nn.Module, reasons: list[str], tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as refused:
        export(model, tmp_path / "out")
    for reason in reasons:
        assert reason in refused.value.message
    assert not (tmp_path / "out").exists()


def test_the_error_lists_all_unsupported_layers() -> None:
    model = pyg_model(TransformerConv(4, 8), nn.Softplus(2), nn.LeakyReLU(-0.3))
    with pytest.raises(CommandError) as refused:
        export(model, Path("unused"))
    assert refused.value.message.count("\n  layer ") == 3


@pytest.mark.parametrize(
    ("inputs", "modules", "reason"),
    [
        (
            "x, edge_index, batch, mood",
            [
                (GCNConv(4, 8), "x, edge_index -> x"),
                (global_add_pool, "x, batch -> x"),
                nn.Linear(8, 3),
            ],
            "takes (x, edge_index, batch, mood)",
        ),
    ],
)
def test_a_sequential_with_other_inputs_is_refused(
    inputs: str, modules: list[object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as refused:
        export(Sequential(inputs, modules), tmp_path / "out")
    assert reason in refused.value.message


class Doubled(nn.Linear):
    """A subclass of a supported layer that computes something else."""

    def forward(self, values: Tensor) -> Tensor:
        return 2 * super().forward(values)


def test_a_subclass_of_a_supported_layer_is_read_step_by_step(tmp_path: Path) -> None:
    written = export(pyg_model(GCNConv(4, 8), Doubled(8, 8)), tmp_path)
    layers = json.loads(written.spec.read_text())["layers"]
    assert [layer["type"] for layer in layers] == ["gcn", "linear", "affine", "pool", "linear"]
    assert layers[2] == {"type": "affine", "scale": 2.0, "shift": 0.0}


@pytest.mark.parametrize(
    "gate", [(mlp(8, 1),), (MLP([8, 4, 1]),), (nn.Linear(8, 1), nn.Linear(8, 8))], ids=str
)
def test_attention_pooling_with_other_gates_is_exported(
    gate: tuple[nn.Module, ...], tmp_path: Path
) -> None:
    assert export(gate_model(*gate), tmp_path).largest_difference < 1e-5


def test_an_edge_attribute_of_one_column_may_weigh_edges(tmp_path: Path) -> None:
    written = export(edge_model(GCNConv(4, 8)), tmp_path)
    document = json.loads(written.spec.read_text())
    assert document["edge_features"] == 1
    assert document["layers"][0] == {"type": "gcn", "out": 8, "inputs": ["x", "edge_attr"]}


def test_steps_that_the_output_does_not_need_are_left_out(tmp_path: Path) -> None:
    modules = [
        (GCNConv(4, 8), "x, edge_index -> a"),
        (GCNConv(4, 8), "x, edge_index -> b"),
        (global_add_pool, "b, batch -> g"),
        nn.Linear(8, 3),
    ]
    written = export(Sequential("x, edge_index, batch", modules), tmp_path)
    kinds = [layer["type"] for layer in json.loads(written.spec.read_text())["layers"]]
    assert kinds == ["gcn", "pool", "linear"]


def test_a_model_with_a_forward_hook_is_refused(tmp_path: Path) -> None:
    model = pyg_model(GCNConv(4, 8))
    model[0].register_forward_hook(lambda _module, _inputs, output: 2 * output)
    with pytest.raises(CommandError, match="differs from the model"):
        export(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = pyg_model(GCNConv(4, 8))
    with torch.no_grad():
        model[2].weight[0, 0] = torch.nan
    with pytest.raises(CommandError, match="finite"):
        export(model, tmp_path / "out")


def test_the_number_of_class_names_must_match(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="2 class names for 3 classes"):
        export(pyg_model(GCNConv(4, 8)), tmp_path / "out", ["a", "b"])


def test_an_export_replaces_an_older_one_and_leaves_no_other_files(tmp_path: Path) -> None:
    export(pyg_model(GCNConv(4, 8)), tmp_path)
    before = (tmp_path / "weights.safetensors").read_bytes()
    export(pyg_model(GCNConv(4, 8)), tmp_path)
    assert (tmp_path / "weights.safetensors").read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spec.json", "weights.safetensors"]
