"""Exports of whole models: PyG's own, hand-written classes, and data flows of PyG Sequentials."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric
import torch_geometric.nn as pyg
from safetensors.torch import load_file
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    MLP,
    PNA,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphSAGE,
    JumpingKnowledge,
    SAGEConv,
    global_add_pool,
    global_mean_pool,
)
from torch_geometric.utils import degree, to_dense_batch

from d4explain.cli.commands.inputs.export import export as export_command
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.errors import CommandError
from d4explain.export.comparison import compare
from d4explain.export.exporter import export
from d4explain.export.model_runners import InputForm, Original, make_runner
from d4explain.export.sample_inputs import sample_graphs
from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GcnLayer, GnnSpec, LinearLayer, PoolLayer
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)

ModelRunner = Callable[[SparseGraphs], Tensor]


def as_trained(model: nn.Module, seed: int = 0) -> nn.Module:
    """Give running statistics and biases random values, as after training."""
    rng = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.copy_(torch.rand(tensor.shape, generator=rng) + 0.5)
        elif name.endswith(("running_mean", "bias")):
            tensor.copy_(torch.randn(tensor.shape, generator=rng) * 0.3)
    return model.eval()


def fresh_graphs() -> SparseGraphs:
    """Other graphs than those that the export compares on."""
    rng = torch.Generator().manual_seed(11)
    graphs = []
    for nodes in (1, 2, 5, 9, 13):
        edges = (torch.rand(nodes, nodes, generator=rng) < 0.4).triu(1).nonzero().T
        graphs.append(Graph(torch.randn(nodes, 4, generator=rng), edges))
    return to_sparse(graphs)


def load_export(folder: Path) -> tuple[Gnn, dict[str, Any]]:
    """Load spec and weights as a worker does."""
    document = json.loads((folder / "spec.json").read_text())
    gnn = Gnn(spec_from_document(parse_spec(document))).eval()
    gnn.load_state_dict(load_file(folder / "weights.safetensors"))
    return gnn, document


def assert_same_outputs(folder: Path, run_model: ModelRunner) -> dict[str, Any]:
    gnn, document = load_export(folder)
    graphs = fresh_graphs()
    with torch.no_grad():
        exported = gnn.node_logits(graphs) if document["task"] == "node" else gnn(graphs)
        torch.testing.assert_close(exported, run_model(graphs), rtol=1e-5, atol=1e-5)
    return document


def layer_types(document: dict[str, Any]) -> list[str]:
    return [layer["type"] for layer in document["layers"]]


DEGREES = torch.tensor([2, 5, 4, 3])
PNA_OPTIONS = {
    "aggregators": ["mean", "min", "max", "std"],
    "scalers": ["identity", "amplification"],
}
PYG_MODELS = {
    "gcn": lambda: GCN(4, 8, 3, 3, dropout=0.3),
    "gcn of one layer": lambda: GCN(4, 8, 1, 3),
    "gcn without activation": lambda: GCN(4, 8, 2, 3, act=None),
    "gcn, act first": lambda: GCN(4, 8, 3, 3, act="tanh", act_first=True, norm="batch_norm"),
    "gcn, layer norm": lambda: GCN(4, 8, 2, 3, norm="layer_norm", norm_kwargs={"mode": "node"}),
    "gcn, last": lambda: GCN(4, 8, 2, 3, jk="last"),
    "sage": lambda: GraphSAGE(4, 8, 2, 3, jk="max", aggr="max"),
    "gin": lambda: GIN(4, 8, 2, 3, train_eps=True),
    "gin, normed": lambda: GIN(4, 8, 5, 3, norm="batch_norm", jk="cat", dropout=0.5),
    "gin, elu": lambda: GIN(4, 8, 2, 3, act="elu"),
    "gat": lambda: GAT(4, 8, 2, 3, heads=2, act="elu", dropout=0.6),
    "gat, jump": lambda: GAT(4, 8, 2, 3, heads=4, jk="cat"),
    "gatv2": lambda: GAT(4, 8, 3, 3, heads=2, v2=True),
    "pna": lambda: PNA(4, 8, 2, 3, **PNA_OPTIONS, deg=DEGREES, towers=1),
    "binary": lambda: GCN(4, 8, 2, 1),
}


@pytest.mark.parametrize("name", PYG_MODELS)
def test_pyg_s_own_models_are_exported_as_node_classifiers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = as_trained(PYG_MODELS[name]())
    export(model, tmp_path)

    def run_model(graphs: SparseGraphs) -> Tensor:
        values: Tensor = model(graphs.features, graphs.edge_index)
        return F.pad(values, (1, 0)) if values.shape[1] == 1 else values

    document = assert_same_outputs(tmp_path, run_model)
    assert document["task"] == "node"
    assert document["head"] == ("binary" if name == "binary" else "softmax")
    assert "pool" not in layer_types(document)


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        (GCN(4, 8, 2, 3, jk="lstm"), ["(JumpingKnowledge)", "mode='lstm'", "mode='cat'"]),
        (GCN(4, 8, 2, 3, act="mish"), ["act (Mish)", "supported layers:"]),
        (GCN(4, 8, 2, 3, improved=True), ["convs.0 (GCNConv)", "improved=True"]),
        (GCN(4, 8, 2, 3, norm="graph_norm"), ["GraphNormLayer() reads the whole graph"]),
        (pyg.EdgeCNN(4, 8, 2, 3), ["convs.0 (EdgeConv)", "supported layers:"]),
    ],
    ids=str,
)
def test_unsupported_options_of_pyg_s_models_are_refused(
    model: nn.Module, reasons: list[str], tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as refused:
        export(model, tmp_path / "out")
    for reason in reasons:
        assert reason in refused.value.message
    assert not (tmp_path / "out").exists()


class GinClassifier(nn.Module):
    """As in PyG's examples for TU data sets."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn = GIN(4, 8, 3, norm="batch_norm", dropout=0.5)
        self.head = MLP([8, 8, 3], norm=None, dropout=0.5)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.gnn(x, edge_index)
        x = global_add_pool(x, batch)
        result: Tensor = self.head(x)
        return result


def test_a_graph_classifier_around_pyg_s_gin(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = as_trained(GinClassifier())
    export(model, tmp_path)
    document = assert_same_outputs(
        tmp_path, lambda graphs: model(graphs.features, graphs.edge_index, graphs.graph_of_node)
    )
    assert document["task"] == "graph"
    normed = ["gin_sum", "linear", "batch_norm", "activation", "linear"]
    assert layer_types(document)[:8] == [*normed, "batch_norm", "activation", "dropout"]
    assert layer_types(document)[-4:] == ["pool", "linear", "activation", "linear"]


def test_a_gat_that_classifies_nodes(tmp_path: Path) -> None:
    class Net(nn.Module):
        """As in PyG's examples for Cora."""

        def __init__(self) -> None:
            super().__init__()
            self.conv1 = GATConv(4, 8, heads=4, dropout=0.6)
            self.conv2 = GATConv(32, 3, heads=2, concat=False, dropout=0.6)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x = F.dropout(x, p=0.6, training=self.training)
            x = F.elu(self.conv1(x, edge_index))
            x = self.conv2(x, edge_index)
            return F.log_softmax(x, dim=1)

    torch.manual_seed(2)
    model = as_trained(Net())
    export(model, tmp_path)
    gnn, document = load_export(tmp_path)
    assert layer_types(document) == ["gat", "activation", "gat"]
    graphs = fresh_graphs()
    with torch.no_grad():
        exported = gnn.node_logits(graphs).log_softmax(dim=1)
        torch.testing.assert_close(exported, model(graphs.features, graphs.edge_index))


class Handwritten(nn.Module):
    """Lists of convolutions and norms, a residual connection, and a PyG batch to read from."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.convs = nn.ModuleList([GCNConv(8, 8), SAGEConv(8, 8)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(8), nn.BatchNorm1d(8)])
        self.last = nn.Linear(8, 1)

    def forward(self, data: Data) -> Tensor:
        x = self.first(data.x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.relu(norm(conv(x, data.edge_index)))
        x = global_mean_pool(x, data.batch, size=data.num_graphs)
        result: Tensor = self.last(x)
        return torch.sigmoid(result.squeeze(1))


def test_a_hand_written_class_that_returns_a_probability(tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = as_trained(Handwritten())
    export(model, tmp_path, ["no", "yes"])
    gnn, document = load_export(tmp_path)
    assert (document["head"], document["classes"]) == ("binary", 2)
    rng = torch.Generator().manual_seed(5)
    graphs = [Graph(torch.randn(n, 4, generator=rng), torch.triu_indices(n, n, 1)) for n in (2, 6)]
    both_ways = [torch.cat([graph.edges, graph.edges.flip(0)], dim=1) for graph in graphs]
    batch = Batch.from_data_list(
        [Data(graph.features, edges) for graph, edges in zip(graphs, both_ways, strict=True)]
    )
    with torch.no_grad():
        expected = model(batch)
    found = predict(gnn, graphs, torch.device("cpu"))
    torch.testing.assert_close(found[:, 1], expected)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(2))


class EdgeNet(nn.Module):
    """As in PyG's examples with bonds: an MLP with a norm inside each convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [
                GINEConv(self.inner(4), train_eps=True, edge_dim=3),
                GINEConv(self.inner(8), edge_dim=3),
            ]
        )
        self.attention = GATv2Conv(8, 4, heads=2, edge_dim=3)
        self.head = nn.Linear(8, 3)

    @staticmethod
    def inner(width: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        for conv in self.convs:
            x = F.relu(conv(x, edge_index, edge_attr))
        x = self.attention(x, edge_index, edge_attr)
        result: Tensor = self.head(global_add_pool(x, batch))
        return result


def test_a_hand_written_class_that_reads_edge_attributes(tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = as_trained(EdgeNet())
    export(model, tmp_path)
    gnn, document = load_export(tmp_path)
    assert document["edge_features"] == 3
    graphs = fresh_graphs()
    rng = torch.Generator().manual_seed(6)
    edges = graphs.edge_index.shape[1]
    graphs = replace(graphs, edge_attributes=torch.randn(edges, 3, generator=rng))
    with torch.no_grad():
        inputs = graphs.features, graphs.edge_index, graphs.edge_attributes, graphs.graph_of_node
        torch.testing.assert_close(gnn(graphs), model(*inputs), rtol=1e-5, atol=1e-5)


def test_pyg_s_gat_with_edge_attributes_is_exported(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = as_trained(GAT(4, 8, 2, 3, heads=2, edge_dim=3))
    export(model, tmp_path)
    gnn, document = load_export(tmp_path)
    assert [layer.get("edges") for layer in document["layers"] if layer["type"] == "gat"] == [
        True,
        True,
    ]
    graphs = fresh_graphs()
    carried = torch.randn(graphs.edge_index.shape[1], 3)
    with torch.no_grad():
        exported = gnn.node_logits(replace(graphs, edge_attributes=carried))
        original = model(graphs.features, graphs.edge_index, edge_attr=carried)
    torch.testing.assert_close(exported, original, rtol=1e-5, atol=1e-5)


def test_one_logit_is_a_binary_head(tmp_path: Path) -> None:
    model = as_trained(nn.Sequential(GCNConv(4, 8), pyg.MeanAggregation(), nn.Linear(8, 1)))
    export(model, tmp_path)
    document = assert_same_outputs(
        tmp_path,
        lambda graphs: F.pad(
            model[2](model[1](model[0](graphs.features, graphs.edge_index), graphs.graph_of_node)),
            (1, 0),
        ),
    )
    assert document["head"] == "binary"
    again = Gnn(GnnSpec(4, 2, (GcnLayer(8), PoolLayer("sum"), LinearLayer(1))))
    assert export(again.eval(), tmp_path).largest_difference == 0


class ReturnsTuple(nn.Linear):
    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(x), edge_index


class OneConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = GCNConv(4, 8), nn.Linear(8, 3)


class ActiveDropout(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(self.conv(x, edge_index), 0.5)  # refused
        return self.head(x)


class Doubling(pyg.MessagePassing):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: Tensor) -> Tensor:
        return 2 * x_j


class OwnConvolution(OneConv):
    def __init__(self) -> None:
        super().__init__()
        self.doubling = Doubling()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.doubling(self.conv(x, edge_index), edge_index)  # refused
        return self.head(x)


class ByHand(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        messages = h[edge_index[0]]  # refused
        return self.head(torch.zeros_like(h).index_add(0, edge_index[1], messages))


class BySize(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(self.conv(x, edge_index) / x.shape[0])  # refused


class OverAllGraphs(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        return self.head(x.mean(dim=0, keepdim=True))  # refused


class WritesRows(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        x[:, 0] = 1.0  # refused
        return self.head(x)


class PadsGraphs(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x, _ = to_dense_batch(self.conv(x, edge_index), batch)  # refused
        return self.head(x.sum(dim=1))


class SoftmaxInside(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv(x, edge_index).softmax(dim=-1)
        return self.head(x)


class GuardsAgainstNan(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = torch.nan_to_num(x / x.sum(dim=1, keepdim=True))  # refused
        return self.head(self.conv(x, edge_index))


class Untracked(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index).new_zeros(len(x), 3)


class UsesNumPy(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.from_numpy(self.conv(x, edge_index).numpy()[:, :3])  # refused


class BranchesOnValues(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        if h.abs().sum() >= 0:  # refused
            h = h.relu()
        return self.head(h)


class BranchesOnANumber(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        if float(h.detach().abs().mean()) > 1e9:  # refused
            h = h.relu()
        return self.head(h)


class BranchesOnDegrees(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        if degree(edge_index[0], len(x)).max().item() > 1000:  # refused
            h = h.relu()
        return self.head(h)


class BranchesOnTheBatch(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = global_mean_pool(self.conv(x, edge_index), batch)
        if (batch == 0).all():  # refused
            h = h.relu()
        return self.head(h)


class NoColumns(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv(x, edge_index)
        return self.head(torch.cat([h, h[:, 8:]], dim=1))  # refused


class ChoosesEdges(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        turned = edge_index[torch.tensor([1, 0])]  # refused
        messages = self.conv(x, edge_index)[turned[0]]  # refused
        return self.head(messages)


class SeveralLabels(OneConv):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(self.conv(x, edge_index)).sigmoid()  # refused


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Bilinear(4, 4, 3), "Bilinear.forward takes (input1, input2)"),
        (ReturnsTuple(4, 3), "returns a tuple of 2 (0: [33, 3], 1: [2, "),
        (ActiveDropout(), "dropout is active in eval mode; write dropout(x, p, training="),
        (OwnConvolution(), "it is a MessagePassing of its own"),
        (ByHand(), "message passing by hand is not supported"),
        (BySize(), "depends on the graph"),
        (OverAllGraphs(), "mean over rows joins all graphs of a batch; use global_mean_pool"),
        (WritesRows(), "assigning rows or columns of a tensor is not supported"),
        (PadsGraphs(), "is not supported"),
        (SoftmaxInside(), "softmax can only be the last step"),
        (GuardsAgainstNan(), "nan_to_num is not supported; divide by torch.clamp"),
        (Untracked(), "does not depend on its inputs by operations that export can follow"),
        (UsesNumPy(), "numpy: Python takes a number out of a value that depends on the graph"),
        (BranchesOnValues(), "bool: Python decides by a value that depends on the graph"),
        (BranchesOnANumber(), "float: Python takes a number out of a value that depends on"),
        (BranchesOnDegrees(), "item: Python takes a number out of a value that depends on"),
        (BranchesOnTheBatch(), "bool: Python decides by a value that depends on the graph"),
        (NoColumns(), "chooses none of 8 columns"),
        (ChoosesEdges(), "choosing rows by a tensor is not supported"),
        (SeveralLabels(), "gives 3 outputs a probability each (several labels per row)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_an_inexpressible_model_is_refused_with_its_line(
    model: nn.Module, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandError) as refused:
        export(model, tmp_path / "out")
    assert reason in refused.value.message
    assert not (tmp_path / "out").exists()
    lines, start = inspect.getsourcelines(type(model))
    marked = [n for n, line in enumerate(lines, start) if line.rstrip().endswith("# refused")]
    for number in marked:
        assert f"test_models.py:{number}: " in refused.value.message


def test_numbers_of_the_batch_may_be_sizes(tmp_path: Path) -> None:
    class Sized(OneConv):
        def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
            size = int(batch.max()) + 1 if len(batch) else 0
            h = torch.relu(input=self.conv(x, edge_index))
            return self.head(global_mean_pool(h, batch, size=size))

    model = as_trained(Sized())
    export(model, tmp_path)
    assert_same_outputs(
        tmp_path, lambda graphs: model(graphs.features, graphs.edge_index, graphs.graph_of_node)
    )


def test_a_step_that_no_output_shows_is_compared(tmp_path: Path) -> None:
    """Tiny weights in the middle and a saturated softmax at the end hide wrong steps."""

    class Saturated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.conv, self.head = nn.Linear(4, 8), GCNConv(8, 8), nn.Linear(8, 3)
            with torch.no_grad():
                self.first.weight.mul_(1e-7)
                self.first.bias.zero_()
                self.head.bias.copy_(torch.tensor([200.0, 0, 0]))

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.head(self.conv(self.first(x), edge_index)).softmax(dim=1)

    torch.manual_seed(0)
    model = Saturated().eval()
    assert export(model, tmp_path).largest_difference == 0
    gnn, _ = load_export(tmp_path)
    original = Original(model, make_runner(model), InputForm(4))
    graphs = sample_graphs(original.form)
    assert compare(original, gnn, "softmax", graphs) == 0
    with torch.no_grad():
        gnn.layers[0].linear.weight.mul_(2)
    with pytest.raises(CommandError, match=r"first at .*test_models.py:\d+: first \(Linear\)"):
        compare(original, gnn, "softmax", graphs)


def test_edge_weights_that_do_not_reach_the_output_are_named(tmp_path: Path) -> None:
    class Ignores(OneConv):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
            return self.head(self.conv(x, edge_index))

    with pytest.warns(UserWarning, match="forward takes edge_weight, but the output of the model"):
        export(Ignores(), tmp_path)
    assert "edge_features" not in load_export(tmp_path)[1]
    edges = torch.tensor([[0, 1], [1, 0]])
    sample = Data(torch.ones(2, 4), edges, edge_attr=torch.ones(2, 3))
    with pytest.warns(UserWarning, match="the samples have edge_attr, but the output"):
        export(as_trained(GCN(4, 8, 2, 3)), tmp_path, samples=[sample])


def test_one_of_several_outputs_is_exported(tmp_path: Path) -> None:
    model = as_trained(ReturnsTuple(4, 3))
    export(model, tmp_path, output="0")
    document = assert_same_outputs(tmp_path, lambda graphs: model(graphs.features, None)[0])
    assert layer_types(document) == ["linear"]
    with pytest.raises(CommandError, match="tuple of 2, has no 'logits'"):
        export(model, tmp_path, output="logits")


def test_samples_tell_what_the_model_reads(tmp_path: Path) -> None:
    class Types(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.conv = nn.Embedding(5, 8), GCNConv(8, 3)

        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Any:
            return self.conv(self.table(x.squeeze(-1)), edge_index, edge_weight)

    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    sample = Data(torch.tensor([[4], [0], [2]]), edges, edge_weight=torch.tensor([1.0, 1, 2, 2]))
    model = as_trained(Types())
    export(model, tmp_path, samples=[sample])
    gnn, document = load_export(tmp_path)
    assert (document["features"], document["edge_features"]) == (1, 1)
    graph = Graph(sample.x.float(), edges[:, ::2], edge_attributes=torch.tensor([[1.0], [2.0]]))
    with torch.no_grad():
        expected = model(sample.x, edges, sample.edge_weight)
        torch.testing.assert_close(gnn.node_logits(to_sparse([graph])), expected)
    assert export(model, tmp_path).left_out == ("edge_weight",)
    directed = Data(sample.x, edges[:, :1], edge_weight=torch.ones(1))
    with pytest.raises(CommandError, match="directed or has self-loops"):
        export(model, tmp_path, samples=[directed])


def test_the_first_step_that_differs_is_named_with_both_values(tmp_path: Path) -> None:
    class Noted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = GCNConv(4, 8), GCNConv(8, 3)
            self.conv2.register_forward_hook(lambda _module, _inputs, output: output + 1)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv2(self.conv1(x, edge_index).relu(), edge_index).tanh()

    with pytest.raises(CommandError) as refused:
        export(Noted(), tmp_path / "out")
    message = refused.value.message
    assert "the export differs from the model by" in message
    assert re.search(
        r"first at .*test_models.py:\d+: conv2 \(GCNConv\): the model gives 300 by 3 values from "
        r"\S+ to \S+, mean \S+, its export 300 by 3 values from",
        message,
    )


def sequential_of(*modules: Any) -> pyg.Sequential:
    rest = [(global_mean_pool, "x, batch -> x"), nn.LazyLinear(3)]
    model = pyg.Sequential("x, edge_index, batch", [*modules, *rest])
    with torch.no_grad():
        model(torch.ones(2, 4), torch.tensor([[0, 1], [1, 0]]), torch.zeros(2, dtype=torch.int64))
    return model


FLOWS = {
    "residual": [
        (nn.Linear(4, 8), "x -> x"),
        (GCNConv(8, 8), "x, edge_index -> h"),
        nn.ReLU(),
        (lambda x, h: x + h, "x, h -> x"),
    ],
    "residual of the features": [
        (GCNConv(4, 4), "x, edge_index -> h"),
        (torch.add, "h, x -> x"),
    ],
    "jumping knowledge": [
        (GCNConv(4, 8), "x, edge_index -> x1"),
        nn.ReLU(),
        (GINConv(nn.Linear(8, 8)), "x1, edge_index -> x2"),
        (lambda a, b: [a, b], "x1, x2 -> xs"),
        (JumpingKnowledge("max"), "xs -> x"),
    ],
    "concatenation": [
        (GCN(4, 8, 2), "x, edge_index -> x1"),
        (GCNConv(8, 6), "x1, edge_index -> x2"),
        (lambda *xs: torch.cat(xs, dim=-1), "x1, x2 -> x"),
    ],
    "residual and jumping knowledge": [
        (GCNConv(4, 4), "x, edge_index -> a"),
        (torch.add, "x, a -> a"),
        (GCNConv(4, 4), "a, edge_index -> b"),
        (torch.add, "a, b -> b"),
        (lambda a, b: [a, b], "a, b -> xs"),
        (JumpingKnowledge("cat"), "xs -> x"),
    ],
    "sum of an older value": [
        (GCNConv(4, 4), "x, edge_index -> a"),
        (GCNConv(4, 4), "a, edge_index -> b"),
        (torch.add, "a, b -> b"),
        (torch.add, "b, x -> x"),
    ],
    "concatenation in another order": [
        (GCNConv(4, 4), "x, edge_index -> a"),
        (GCNConv(4, 4), "a, edge_index -> b"),
        (lambda a, b: torch.cat([b, a], dim=1), "a, b -> x"),
    ],
    "concatenation of some values": [
        (GCNConv(4, 4), "x, edge_index -> a"),
        (GCNConv(4, 4), "a, edge_index -> b"),
        (torch.add, "a, b -> b"),
        (lambda x, b: torch.cat([x, b], dim=1), "x, b -> x"),
    ],
    "sum without the last value": [
        (GCNConv(4, 4), "x, edge_index -> a"),
        (GCNConv(4, 4), "a, edge_index -> b"),
        (torch.add, "x, a -> x"),
    ],
    "norms of PyG's models": [
        (GCN(4, 8, 2, norm="layer_norm", norm_kwargs={"mode": "node"}), "x, edge_index -> x"),
    ],
}


@pytest.mark.parametrize("name", FLOWS)
def test_supported_data_flows_are_exported(name: str, tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = as_trained(sequential_of(*FLOWS[name]))
    export(model, tmp_path)
    document = assert_same_outputs(
        tmp_path, lambda graphs: model(graphs.features, graphs.edge_index, graphs.graph_of_node)
    )
    assert ("combine" in layer_types(document)) == (name != "norms of PyG's models")


GNNS_PAGE = (Path(__file__).parents[4] / "docs" / "gnns.md").read_text()


def test_the_documented_model_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.search(r"```python\n(.*?)```", GNNS_PAGE, re.DOTALL)
    assert example
    names = {"torch": torch, "torch_geometric": torch_geometric, "F": F, "GCNConv": GCNConv}
    names |= {"global_add_pool": global_add_pool, "global_max_pool": pyg.global_max_pool}
    exec(example.group(1), names)
    monkeypatch.chdir(tmp_path)
    torch.save(as_trained(names["Net"]()).state_dict(), "net.pt")
    export(names["trained"](), tmp_path)
    assert (tmp_path / "spec.json").exists()


MODEL_SOURCE = """
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_mean_pool

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.lin = GCNConv(4, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.lin(global_mean_pool(self.conv(x, edge_index).relu(), batch))

def trained():
    return Net()
"""


def test_the_command_takes_a_model_or_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(MODEL_SOURCE)
    for name in ("trained", "Net"):
        export_command(f"nets.py:{name}", out=tmp_path / name, class_names="no, yes")
        assert load_export(tmp_path / name)[1]["class_names"] == ["no", "yes"]
    with pytest.raises(CommandError, match="is a str, not a torch"):
        export_command("nets.py:__name__", out=tmp_path / "out")
