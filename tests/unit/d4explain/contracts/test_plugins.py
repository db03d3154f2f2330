"""A package with entry points adds layers and whole GNNs, from the API's gate to the answer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch_geometric.nn import LEConv, ResGatedGraphConv

from d4explain.contracts import plugins
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.errors import InvalidInput, PluginError
from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_files.weights import check_weights
from d4explain.contracts.gnn_spec import GnnSpecDocument, parse_spec
from d4explain.contracts.job_states import GnnState, JobState
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest, DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.contracts.spec_checks.layer_types import check_plugins
from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from store import jobs
from store.artifacts import graph_sets
from store.catalogue import datasets, denoisers, explanations, gnns
from store.database.tables import Dataset, Job
from store.database.tables import Gnn as GnnRow
from store.store import Store
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library
from worker.loading.spec_conversion import spec_from_document

torch.set_num_threads(1)
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "tests" / "plugins"
HEAD = [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}]


def document(*layers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"features": 1, "classes": 2, "layers": list(layers), **changes}


GATED = document({"type": "gated", "out": 4}, *HEAD)
EXTREMA = document({"type": "extrema", "out": 4}, *HEAD)
WHOLE = document({"type": "two_pools"})


def built(spec: GnnSpecDocument) -> Gnn:
    torch.manual_seed(0)
    return Gnn(spec_from_document(spec)).eval()


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize("sent", [GATED, EXTREMA, WHOLE], ids=["gated", "extrema", "two_pools"])
def test_the_expected_tensors_are_those_of_the_module(sent: dict[str, Any]) -> None:
    spec = parse_spec(sent)
    gnn = built(spec)
    found = {name: tuple(tensor.shape) for name, tensor in gnn.state_dict().items()}
    assert found == {name: tensor.shape for name, tensor in expected_tensors(spec).items()}
    weights = safetensors.torch.save(gnn.state_dict())
    check_weights(weights, spec)
    wrong = {name: tensor[:1] for name, tensor in gnn.state_dict().items()}
    with pytest.raises(InvalidInput, match=r"layers\.0\.module\."):
        check_weights(safetensors.torch.save(wrong), spec)
    # what is stored and read again is the same spec
    assert parse_spec(json.loads(spec.model_dump_json())) == spec


@pytest.mark.usefixtures("plugged")
def test_defaults_are_written_out() -> None:
    assert parse_spec(WHOLE).model_dump()["layers"] == [{"type": "two_pools", "hidden": 16}]


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(("name", "conv"), [("gated", ResGatedGraphConv), ("extrema", LEConv)])
def test_a_plugin_layer_equals_pyg(name: str, conv: type) -> None:
    spec = parse_spec(document({"type": name, "out": 3}, *HEAD, features=2))
    gnn = built(spec)
    truth = conv(2, 3)
    truth.load_state_dict(gnn.layers[0].module.conv.state_dict())
    graph = Graph(torch.randn(5, 2), torch.tensor([[0, 1, 0], [1, 2, 4]]))
    batch = to_sparse([graph])
    wanted = gnn.layers[2].rows(truth(graph.features, batch.edge_index).sum(0, keepdim=True))
    with torch.no_grad():
        torch.testing.assert_close(gnn(batch), wanted.detach())
        torch.testing.assert_close(gnn.answers(to_dense([graph])), wanted.detach())
    assert gnn.has_dense == (name == "extrema")


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'gated' is not known to this deployment") as refused:
        parse_spec(GATED)
    assert refused.value.pointer == "/layers/0"
    assert "gcn, gin" in str(refused.value)


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(
    ("sent", "pointer", "words"),
    [
        (document({"type": "gatid", "out": 4}, *HEAD), "/layers/0", "gated (plug-in)"),
        (document({"type": "gated"}, *HEAD), "/layers/0/out", "required"),
        (document({"type": "gated", "out": 0}, *HEAD), "/layers/0/out", "sent: 0"),
        (document({"type": "gated", "out": "4"}, *HEAD), "/layers/0/out", "sent: '4'"),
        (document({"type": "gated", "out": 4, "x": 1}, *HEAD), "/layers/0/x", "not permitted"),
        (document(HEAD[0], {"type": "gated", "out": 4}, HEAD[1]), "/layers/1", "after the pool"),
        (document(HEAD[0], {"type": "gated", "out": 2}), "/layers/1", "after the pool"),
        (document({"type": "two_pools"}, HEAD[1]), "/layers/0", "the only layer"),
        (document({"type": "two_pools"}, task="node"), "/task", "two_pools classifies graphs"),
        (document({"type": "gated", "out": 3}, task="node"), "/layers/0/out", "classes is 2"),
    ],
)
def test_invalid_plugin_layers_are_refused(sent: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec(sent)
    faults = {fault.pointer: fault.detail for fault in refused.value.faults}
    assert words in faults[pointer]


@pytest.mark.usefixtures("plugged")
def test_a_node_classifier_may_end_in_a_plugin_layer() -> None:
    spec = spec_from_document(parse_spec(document({"type": "gated", "out": 2}, task="node")))
    assert (spec.classifies_nodes, spec.convolutions, spec.receptive_field) == (True, 1, 2)


def install(folder: Path, points: str, code: str) -> None:
    """A package called `other` in the folder."""
    info = folder / "other-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(points)
    (folder / "other_plugin.py").write_text(code)


@pytest.mark.usefixtures("plugged")
def test_width_errors_of_a_plugin_reach_the_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = layer_code() + (
        "import dataclasses\n"
        "def odd(fields, width):\n    raise ValueError(f'{width} values cannot be halved')\n"
        "made = dataclasses.replace(made, width=odd)\n"
        "wide = dataclasses.replace(made, width=lambda fields, width: 5000)\n"
    )
    points = "[d4explain.layers]\nhalf = other_plugin:made\nwide = other_plugin:wide"
    install(tmp_path, points, code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "other_plugin", raising=False)
    plugins.installed_plugins.cache_clear()
    gated = {"type": "gated", "out": 3}
    for layer, words in (("half", "half: 3 values cannot be halved"), ("wide", "gives 5000")):
        with pytest.raises(InvalidInput, match=words) as refused:
            parse_spec(document(gated, {"type": layer}, *HEAD))
        assert refused.value.pointer == "/layers/1"


LAYER = """
from d4explain.plugins import Fields, LayerPlugin, TensorShape
class Nothing(Fields):
    {field}
made = LayerPlugin(
    fields={fields}, module="{module}", width=lambda f, w: w, tensors=lambda f, w: {tensors}
)
"""


def layer_code(**changes: str) -> str:
    plain = {"field": "pass", "fields": "Nothing", "module": "other_plugin:Same", "tensors": "{}"}
    return LAYER.format(**{**plain, **changes})


@pytest.mark.parametrize(
    ("points", "code", "words"),
    [
        ("[d4explain.layers]\nsame = other_plugin:made", "1 / 0", "ZeroDivisionError"),
        ("[d4explain.layers]\nsame = other_plugin:absent", "", "AttributeError"),
        ("[d4explain.layers]\nsame = other_plugin:made", "made = 3", "expects a LayerPlugin"),
        ("[d4explain.architectures]\nsame = other_plugin:made", layer_code(), "is a LayerPlugin"),
        ("[d4explain.layers]\nSa-me = other_plugin:made", layer_code(), "lower-case"),
        (
            "[d4explain.layers]\ngcn = other_plugin:made",
            layer_code(),
            "a built-in layer has this name",
        ),
        ("[d4explain.layers]\ngated = other_plugin:made", layer_code(), "provide it"),
        (
            "[d4explain.layers]\nsame = other_plugin:made",
            layer_code(module="other_plugin.Same"),
            "package.module:Class",
        ),
        (
            "[d4explain.layers]\nsame = other_plugin:made",
            layer_code(field="type: int = 1"),
            "field name 'type' is reserved",
        ),
        ("[d4explain.layers]\nsame = other_plugin:made", layer_code(fields="dict"), "subclass of"),
    ],
)
@pytest.mark.usefixtures("plugged")
def test_a_broken_plugin_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: str, code: str, words: str
) -> None:
    install(tmp_path, points, code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "other_plugin", raising=False)
    plugins.installed_plugins.cache_clear()
    with pytest.raises(PluginError, match=re.escape(words)):
        check_plugins()


SAME = """
import torch
class Same(torch.nn.Module):
    def __init__(self, fields, width):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
    def forward(self, values, edge_index, batch):
        return values
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"module": "other_plugin:Same"}, "count is TensorShape(shape=(), dtype='int64'), descri"),
        ({"module": "other_plugin:Absent"}, "AttributeError"),
        ({"module": "other_plugin:Nothing"}, "cannot be built: TypeError"),
        ({"module": "builtins:divmod"}, "cannot be built: TypeError"),
    ],
)
@pytest.mark.usefixtures("plugged")
def test_a_module_that_is_not_as_described_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    points = "[d4explain.layers]\nsame = other_plugin:made"
    install(tmp_path, points, layer_code(**changes) + SAME)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "other_plugin", raising=False)
    plugins.installed_plugins.cache_clear()
    spec = parse_spec(document({"type": "same"}, *HEAD))
    with pytest.raises(PluginError, match=re.escape(words)):
        built(spec)


@pytest.mark.usefixtures("plugged")
def test_tensors_may_be_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = layer_code(tensors='{"count": TensorShape((), "int64")}') + SAME
    install(tmp_path, "[d4explain.layers]\nsame = other_plugin:made", code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "other_plugin", raising=False)
    plugins.installed_plugins.cache_clear()
    spec = parse_spec(document({"type": "same"}, *HEAD))
    check_weights(safetensors.torch.save(built(spec).state_dict()), spec)


def test_descriptions_are_read_without_torch_and_those_that_import_it_are_refused(
    tmp_path: Path,
) -> None:
    check = (
        "import sys\n"
        f"sys.path.insert(0, {str(EXAMPLE)!r})\n"
        "from d4explain.contracts.spec_checks.layer_types import check_plugins\n"
        "from d4explain.contracts.plugins import installed_plugins\n"
        "check_plugins()\n"
        "assert 'torch' not in sys.modules\n"
        "assert installed_plugins().keys() >= {'extrema', 'gated', 'two_pools'}\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "installed_plugins.cache_clear()\n"
        "try:\n    check_plugins()\nexcept Exception as error:\n    print(error)\n"
    )
    # a torch of our own, which costs nothing to import
    (tmp_path / "torch.py").write_text("")
    code = "import torch\n" + layer_code()
    install(tmp_path, "[d4explain.layers]\nsame = other_plugin:made", code)
    ran = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "imports torch; only its module may do so" in ran.stdout


def test_the_page_shows_the_example_package() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    package = EXAMPLE / "d4_example"
    sources = [(package / name).read_text() for name in ("__init__.py", "modules.py")]
    assert len(blocks) >= 2
    for block in blocks:
        assert any(block in source for source in sources), block
    points = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert points is not None
    for line in (EXAMPLE / "d4_example-1.0.dist-info" / "entry_points.txt").read_text().split("\n"):
        if " = " in line:
            name, value = line.split(" = ")
            assert f'{name} = "{value}"' in points[1]


# The whole road.


def registered(store: Store, sent: dict[str, Any]) -> tuple[GnnRow, Job]:
    spec = parse_spec(sent)
    digest = store.artifacts.of("default").put(safetensors.torch.save(built(spec).state_dict()))
    with store.database.transaction() as session:
        gnn, job = gnns.create(
            session, name="plugged", spec=spec, weights_digest=digest, tenant=DEFAULT_TENANT
        )
    return gnn, job


def run(store: Store, job_id: str) -> Job:
    Runner(store, Library(store.artifacts, CPU), HANDLERS, "test").run(job_id)
    with store.database.reading() as session:
        return jobs.get(session, job_id, tenant=DEFAULT_TENANT)


def ring(nodes: int) -> CanonicalGraph:
    edges = sorted([(i, i + 1) for i in range(nodes - 1)] + [(0, nodes - 1)])
    return CanonicalGraph(node_ids=list(range(nodes)), x=[[1.0]] * nodes, edges=edges)


def rings(store: Store) -> Dataset:
    graphs = [ring(5), ring(6)] * 3
    figures = graph_sets.describe(graphs)
    with store.database.transaction() as session:
        return datasets.create(
            session,
            name="rings",
            gnn_features=1,
            graphs_digest=store.artifacts.of("default").put(graph_sets.pack(graphs)),
            sha256=graph_sets.canonical_set_hash(graphs),
            graph_count=figures.graph_count,
            label_counts=figures.label_counts,
            max_nodes=figures.max_nodes,
            mean_nodes=figures.mean_nodes,
            mean_edges=figures.mean_edges,
            tenant=DEFAULT_TENANT,
        )


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize(
    ("sent", "form"), [(GATED, "sparse"), (WHOLE, "sparse"), (EXTREMA, "dense")]
)
def test_a_plugin_gnn_is_explained_and_the_receipt_names_its_form(
    opened_store: Store, sent: dict[str, Any], form: str
) -> None:
    store = opened_store
    gnn, probing = registered(store, sent)
    assert run(store, probing.id).state is JobState.SUCCEEDED
    with store.database.reading() as session:
        row = gnns.get(session, gnn.id, tenant=DEFAULT_TENANT)
    assert row.state is GnnState.READY, row.report
    assert row.report is not None
    assert row.report["dense"] == ("absent" if form == "sparse" else "present")

    fallback = "score_function" if form == "sparse" else None
    config = DenoiserConfig(recipe="paper", steps=6, hidden=4, blocks=1)
    dataset = rings(store)
    with store.database.transaction() as session:
        denoiser, training = denoisers.get_or_create(
            session, gnn=row, dataset=dataset, objective="counterfactual", config=config
        )
    assert training is not None
    assert run(store, training.id).state is JobState.SUCCEEDED
    request = CounterfactualRequest(graphs=[ring(6)], seed=0)
    with store.database.transaction() as session:
        trained = denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT)
        assert trained.metrics is not None
        assert trained.metrics.get("objective_fallback") == fallback
        asked, job = explanations.create(
            session,
            kind="counterfactual",
            gnn=row,
            dataset=dataset,
            denoiser=trained,
            train_job=None,
            request_digest=store.artifacts.of("default").put(request.model_dump_json().encode()),
            seed=0,
        )
    assert run(store, job.id).state is JobState.SUCCEEDED
    with store.database.reading() as session:
        digest = explanations.get(session, asked.id, tenant=DEFAULT_TENANT).result_digest
    result = CounterfactualResult.model_validate_json(
        store.artifacts.of("default").get(digest or "")
    )
    assert result.receipt.gnn_form == form
    assert result.receipt.objective_fallback == fallback
    assert result.receipt.versions["d4-example"] == "1.0"
    warned = any("no dense form" in warning for warning in result.warnings)
    assert warned == (form == "sparse")
    graph = Graph(torch.ones(6, 1), torch.tensor(ring(6).edges).T.contiguous())
    wanted = predict(built(parse_spec(sent)), [graph], CPU)[0].tolist()
    assert result.answers[0].prediction.probabilities == pytest.approx(wanted, abs=1e-5)


def test_a_worker_without_the_plugin_fails_the_job_by_name(
    opened_store: Store, plugged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gnn, probing = registered(opened_store, GATED)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(EXAMPLE)])
    plugins.installed_plugins.cache_clear()
    job = run(opened_store, probing.id)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert "'gated'" in job.error["message"]
    assert "this worker has no such plug-in" in job.error["message"]
    with opened_store.database.reading() as session:
        assert gnns.get(session, gnn.id, tenant=DEFAULT_TENANT).state is GnnState.REJECTED


def test_over_http(api: Any, plugged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered where the plug-in is; later, without it, still shown, and refused anew."""
    weights = safetensors.torch.save(built(parse_spec(WHOLE)).state_dict())
    form = {
        "name": (None, "whole"),
        "spec": (None, json.dumps(WHOLE), "application/json"),
        "weights": ("gnn.safetensors", weights),
    }
    now = {"Prefer": "respond-async"}
    made = api.client.post("/v1/gnns", files=form, headers=now)
    assert made.status_code == 202, made.text
    wrong = {**form, "weights": ("gnn.safetensors", api.weights())}
    refused = api.client.post("/v1/gnns", files=wrong, headers=now)
    assert refused.status_code == 422
    assert "layers.0.module.conv.lin_rel.weight" in refused.text

    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(EXAMPLE)])
    plugins.installed_plugins.cache_clear()
    shown = api.client.get(made.headers["location"])
    assert shown.status_code == 200
    assert shown.json()["spec"]["layers"] == [{"type": "two_pools", "hidden": 16}]
    assert api.client.get("/v1/gnns").status_code == 200
    again = api.client.post("/v1/gnns", files=form, headers=now)
    assert again.status_code == 422
    (error,) = again.json()["errors"]
    assert error["pointer"] == "/spec/layers/0"
    assert "'two_pools' is not known to this deployment; it knows" in error["detail"]
