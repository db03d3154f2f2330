"""Client journeys against the real API with a worker: from a PyG module to a drawn answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GraphConv, Sequential, global_add_pool, global_max_pool

from d4explain import (
    Answers,
    AsyncClient,
    Client,
    ConversionError,
    GraphFormatError,
    NoCounterfactualError,
    RefusedError,
    RejectedGnnError,
    UnfinishedError,
)
from tests.unit.flows.served_api import serving

torch.set_num_threads(1)
QUICK: Any = {"explainer": "search", "aim": "minimal", "judges": "none", "preset": "fast"}
RATIO: Any = {"constraints": {"max_ratio": 0.5}}


@pytest.fixture(scope="module")
def address(deployed: Callable[..., Any]) -> Iterator[str]:
    with serving(deployed()) as url:
        yield url


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as opened:
        yield opened


def edge_counter(features: int, threshold: float) -> nn.Module:
    """A PyG model whose class is 1 if twice the number of edges exceeds a threshold."""
    conv = GraphConv(features, 1, bias=False)
    head = nn.Linear(1, 2)
    with torch.no_grad():
        conv.lin_rel.weight.fill_(1.0)
        conv.lin_root.weight.zero_()
        head.weight.copy_(torch.tensor([[0.0], [1.0]]))
        head.bias.copy_(torch.tensor([0.0, -threshold]))
    arguments = "x, edge_index, batch"
    layers = [
        (conv, "x, edge_index -> x"),
        (global_add_pool, "x, batch -> x"),
        (head, "x -> x"),
    ]
    return Sequential(arguments, layers).eval()


def probability(model: nn.Module, data: Data) -> Tensor:
    with torch.no_grad():
        output: Tensor = model(data.x, data.edge_index, torch.zeros(data.num_nodes).long())
    return output.softmax(dim=1)[0]


def ring(size: int) -> nx.Graph:
    return nx.cycle_graph(size)


def data_of(graph: nx.Graph, label: int) -> Data:
    edges = torch.tensor([sorted(edge) for edge in graph.edges]).T
    both = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.ones(len(graph), 1), edge_index=both, y=torch.tensor([label]))


MODEL = edge_counter(1, 13.0)  # class 1: more than 6.5 edges
RINGS = [data_of(ring(size), int(size > 6)) for size in (4, 5, 6, 7, 8, 9)]


@pytest.fixture(scope="module")
def registered(address: str) -> str:
    with Client(address) as opened:
        gnn = opened.register(MODEL, RINGS, name="rings", class_names=["small", "large"])
        assert gnn.spec["class_names"] == ["small", "large"]
        assert gnn.report is not None
        assert gnn.report.samples is not None
        assert gnn.report.samples.accuracy == 1.0
        stored = opened.dataset("rings")
        assert (stored.version, stored.graph_count) == (1, len(RINGS))
    return "rings"


def test_a_pyg_graph_is_explained_and_verified_by_the_original_module(
    client: Client, registered: str
) -> None:
    graph = RINGS[2]
    answers = client.explain(registered, graph, **QUICK, **RATIO).wait()
    (answer,) = answers
    assert answer.found
    edited = answer.to_pyg()
    before, after = probability(MODEL, graph), probability(MODEL, edited)
    assert int(before.argmax()) == 0
    assert int(after.argmax()) == edited.predicted_class == 1
    found = answer.counterfactual()
    assert found.prediction.probabilities == pytest.approx(after.tolist(), abs=1e-5)
    assert (answer.original.prediction.class_name, found.prediction.class_name) == (
        "small",
        "large",
    )
    assert edited.x.shape == graph.x.shape
    assert edited.is_undirected()
    assert torch.equal(
        answer.original.to_pyg().edge_index.sort(dim=1).values,
        graph.edge_index.sort(dim=1).values,
    )


def test_batches_and_lists_have_one_answer_per_graph(client: Client, registered: str) -> None:
    batch = Batch.from_data_list(RINGS[1:3])
    for graphs in (batch, RINGS[1:3], tuple(RINGS[1:3])):
        answers = client.explain(registered, graphs, **QUICK, **RATIO).wait()
        assert [len(answer.original.graph.nodes) for answer in answers] == [5, 6]


def test_a_networkx_graph_keeps_its_node_names(client: Client, registered: str) -> None:
    names = {number: f"atom {number}" for number in range(6)}
    graph = nx.relabel_nodes(ring(6), names)
    edited = client.explain(registered, graph, **QUICK, **RATIO).wait()[0].to_networkx()
    added = {frozenset(ends[:2]) for ends in edited.edges(data="added") if ends[2]}
    assert set(edited) == set(graph)
    assert {frozenset(edge) for edge in edited.edges} == {
        frozenset(edge) for edge in graph.edges
    } | added
    assert added


def test_a_dict_is_sent_as_it_is(client: Client, registered: str) -> None:
    graph = nx.node_link_data(ring(6), edges="edges")
    assert client.explain(registered, graph, **QUICK, **RATIO).wait()[0].found


MOLECULES = ["CCCCC", "CCOCC", "CCCCCCC", "CCNCCCCC", "CCCCCCCC", "OCCO"]


@pytest.fixture(scope="module")
def molecules(address: str) -> str:
    pytest.importorskip("rdkit")
    with Client(address) as opened:
        opened.register(
            edge_counter(3, 13.0),
            MOLECULES,
            name="chains",
            featuriser={"kind": "smiles", "atoms": ["C", "N", "O"]},
        )
    return "chains"


def test_a_molecule_is_explained_as_smiles(client: Client, molecules: str) -> None:
    answers = client.explain(molecules, "CCCCCCC", **QUICK, constraints={"valid_molecule": True})
    edited = answers.wait()[0].to_smiles()
    from rdkit import Chem  # noqa: PLC0415

    assert answers[0].original.to_smiles() == "CCCCCCC"
    (edit,) = answers[0].counterfactual().edits
    assert (edit.source_type, edit.target_type) == ("C", "C")
    assert "(C)" in answers._repr_html_()
    assert Chem.MolFromSmiles(edited).GetNumBonds() == 7
    assert Chem.MolFromSmiles(edited).GetNumAtoms() == 7


def test_only_molecules_have_smiles(client: Client, registered: str) -> None:
    answer = client.explain(registered, RINGS[2], **QUICK, **RATIO).wait()[0]
    with pytest.raises(ConversionError, match="not posted as SMILES"):
        answer.to_smiles()


def test_nothing_found_says_why(client: Client, registered: str) -> None:
    answers = client.explain(registered, RINGS[0], **QUICK, constraints={"max_edits": 1}).wait()
    with pytest.raises(NoCounterfactualError, match="no counterfactual"):
        answers[0].to_pyg()
    assert "no counterfactual" in answers._repr_html_()


def test_an_alternative_that_does_not_exist_names_the_range(
    client: Client, registered: str
) -> None:
    answer = client.explain(registered, RINGS[2], **QUICK, **RATIO, alternatives=1).wait()[0]
    with pytest.raises(NoCounterfactualError, match="alternative is 3; the answer has 1"):
        answer.counterfactual(3)


def test_results_are_read_after_waiting(client: Client, registered: str) -> None:
    answers = client.explain(registered, RINGS[2], **QUICK, **RATIO)
    assert "exp_" in answers._repr_html_()
    with pytest.raises(UnfinishedError, match=r"call wait\(\) first"):
        _ = answers.result
    answers.wait()
    assert len(answers.result.warnings) >= 0
    assert repr(answers) == f"<Answers {answers.id}: 1 of 1 found>"


def test_notebooks_show_a_drawing_and_a_table(
    client: Client, registered: str, tmp_path: Any
) -> None:
    answers = client.explain(registered, RINGS[2], **QUICK, **RATIO).wait()
    html, svg = answers._repr_html_(), answers._repr_svg_()
    assert svg is not None
    assert svg.startswith("<svg")
    assert "data:image/svg+xml;base64," in html
    assert "small (" in html
    assert "large (" in html
    assert "add " in html
    saved = answers.draw().save(tmp_path / "answer.svg")
    assert saved.read_text(encoding="utf-8") == svg


def test_the_names_of_nodes_are_escaped(client: Client, registered: str) -> None:
    names = {number: f"<b>{number}" for number in range(6)}
    answers = client.explain(registered, nx.relabel_nodes(ring(6), names), **QUICK, **RATIO)
    html = answers.wait()._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_progress_is_reported(client: Client, registered: str) -> None:
    jobs: list[str] = []
    answers = client.explain(registered, RINGS[2], **QUICK, **RATIO)
    answers.wait(on_progress=lambda job: jobs.append(str(job.state)), timeout=60)
    assert jobs[-1] == "succeeded"


def test_an_old_explanation_is_opened_by_its_id(client: Client, registered: str) -> None:
    first = client.explain(registered, RINGS[2], **QUICK, **RATIO).wait()
    again = client.answers(first.id)
    assert [edit.target for edit in again[0].counterfactual().edits] == [
        edit.target for edit in first[0].counterfactual().edits
    ]
    assert first.id in [explanation.id for explanation in client.explanations(gnn=registered)]
    assert b"<graphml" in client.graph_file(first.id, "graphml")


def test_predictions_take_graphs_of_every_form(
    client: Client, registered: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = ["small"] * 3 + ["large"] * 3
    for graphs in (RINGS, Batch.from_data_list(RINGS)):
        assert [one.class_name for one in client.predictions(registered, graphs)] == expected
    bare = [ring(size) for size in range(4, 10)]
    assert [one.class_name for one in client.predictions(registered, bare)] == expected
    assert "nodes have no features" in caplog.text


def test_classes_have_names_in_requests_and_answers(client: Client, registered: str) -> None:
    answers = client.explain(registered, RINGS[2], target_class="large", **QUICK, **RATIO).wait()
    found = answers[0].counterfactual().prediction
    assert (found.predicted_class, found.class_name) == (1, "large")
    with pytest.raises(RefusedError, match=r'is "huge"; .* are 0 to 1 \("small", "large"\)'):
        client.explain(registered, RINGS[2], target_class="huge", **QUICK)


def test_labels_may_be_names_of_classes(client: Client) -> None:
    named = [
        {"edge_index": data.edge_index.tolist(), "x": data.x.tolist(), "label": label}
        for data, label in zip(RINGS, ["small"] * 3 + ["large"] * 3, strict=True)
    ]
    gnn = client.register(MODEL, named, name="named", class_names=["small", "large"])
    assert gnn.report is not None
    assert gnn.report.samples is not None
    assert gnn.report.samples.accuracy == 1.0
    assert client.dataset("named").label_counts == {"0": 3, "1": 3}
    with pytest.raises(RefusedError, match="/graphs/0/label"):
        client.create_dataset("named", [{**named[0], "label": "huge"}], gnn)


class TwoHeads(nn.Module):
    """A model with a forward of its own: an integer node type, a skip, two pools, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 4)
        self.conv = GraphConv(4, 4)
        self.first, self.second = nn.Linear(8, 2), nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> dict[str, Tensor]:
        start = self.embedding(x.squeeze(1))
        values = start + self.conv(start, edge_index).relu()
        pooled = torch.cat([global_add_pool(values, batch), global_max_pool(values, batch)], dim=1)
        return {"first": self.first(pooled), "second": self.second(pooled)}


def test_the_samples_show_what_the_model_reads(client: Client) -> None:
    torch.manual_seed(3)
    model = TwoHeads().eval()
    typed = [data.clone() for data in RINGS]
    for data in typed:
        data.x = torch.randint(3, (data.num_nodes, 1))
        del data.y
    gnn = client.register(model, typed, name="two heads", output="second")
    assert gnn.spec["classes"] == 3
    (found, *_) = client.predictions(gnn, typed[:2])
    batch = torch.zeros(typed[0].num_nodes).long()
    with torch.no_grad():
        expected = model(typed[0].x, typed[0].edge_index, batch)["second"].softmax(dim=1)[0]
    assert found.probabilities == pytest.approx(expected.tolist(), abs=1e-5)


def test_many_labelled_graphs_are_sampled_for_the_accuracy(client: Client) -> None:
    gnn = client.register(MODEL, RINGS * 50, name="many")
    assert gnn.report is not None
    assert gnn.report.samples is not None
    assert gnn.report.samples.graph_count == 256
    assert client.dataset("many").graph_count == 300


def test_a_gnn_that_fails_its_checks_is_named(client: Client) -> None:
    wrong = [data_of(ring(size), int(size <= 6)) for size in (4, 5, 6, 7, 8, 9)]
    with pytest.raises(RejectedGnnError, match=r"the GNN wrong@1 is rejected: .*accuracy"):
        client.register(MODEL, wrong, name="wrong")
    assert [dataset.name for dataset in client.datasets("wrong")] == []


def test_the_default_reference_set_has_the_name_of_the_gnn(client: Client, registered: str) -> None:
    gnn = client.gnn(registered)
    stored = client.dataset(registered)
    for reference in (gnn, registered, f"{registered}@{gnn.version}"):
        answers = client.explain(reference, RINGS[2], **QUICK, **RATIO)
        assert answers.explanation.dataset == stored.id
    with pytest.raises(ValueError, match="give its name instead, or the dataset as well"):
        client.explain(gnn.id, RINGS[2])
    with pytest.raises(RefusedError, match="There is no dataset called 'nowhere'"):
        client.explain(registered, RINGS[2], dataset="nowhere")


# The asynchronous client


def test_the_asynchronous_client_makes_the_same_journey(address: str, registered: str) -> None:
    async def journey() -> tuple[list[int], str, str, list[str]]:
        async with AsyncClient(address) as client:
            several = await asyncio.gather(
                *(client.explain(registered, data, **QUICK, **RATIO) for data in RINGS[1:4])
            )
            await asyncio.gather(*(answers.wait() for answers in several))
            edits = [len(answers[0].counterfactual().edits) for answers in several]
            first = several[0]
            drawing = await first.draw()
            names = [gnn.name async for gnn in client.gnns(registered)]
            return edits, drawing.svg, first._repr_html_(), names

    edits, svg, html, names = asyncio.run(journey())
    assert edits == [2, 1, 1]  # 5 + 2 and 6 + 1 edges are more than 6.5; 7 - 1 are fewer
    assert svg.startswith("<svg")
    assert "data:image/svg+xml;base64," in html
    assert names == [registered]


def test_the_asynchronous_client_registers_a_model(address: str) -> None:
    async def journey() -> str:
        async with AsyncClient(address) as client:
            gnn = await client.register(MODEL, RINGS, name="awaited")
            return (await client.dataset(gnn.name)).name

    assert asyncio.run(journey()) == "awaited"


def test_the_blocking_client_works_inside_an_event_loop(address: str, registered: str) -> None:
    """Notebooks always run one."""

    async def cell() -> Answers:
        with Client(address) as client:
            assert next(client.gnns(registered)).name == registered
            return client.explain(registered, RINGS[2], **QUICK, **RATIO).wait()

    assert asyncio.run(cell())[0].found


# What is not a graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (3, "got a int; a graph is a PyG Data or Batch, a NetworkX graph, a SMILES text"),
        (b"CC", "got a bytes"),
        ([[RINGS[0], RINGS[1]]], "expected one graph; got 2"),
        (nx.grid_2d_graph(2, 2), r"the node \(0, 0\) is a tuple; node ids are integers or texts"),
        (
            Data(edge_index=torch.tensor([[0], [1]]), edge_weight=torch.tensor([2.0]), num_nodes=2),
            "the graph has edge_weight, which the API does not read",
        ),
        (Data(x=torch.ones(2, 1)), "without edge_index"),
    ],
)
def test_other_objects_are_refused_by_name(client: Client, graph: Any, message: str) -> None:
    with pytest.raises(GraphFormatError, match=message):
        client.explain("rings", graph)


def test_heterogeneous_graphs_are_refused(client: Client) -> None:
    from torch_geometric.data import HeteroData  # noqa: PLC0415

    with pytest.raises(GraphFormatError, match="one type of nodes"):
        client.explain("rings", HeteroData())
