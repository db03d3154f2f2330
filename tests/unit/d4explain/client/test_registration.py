"""The registry through client and command line, against the real API."""

from __future__ import annotations

import json

import pytest
import torch
from torch_geometric.nn import Sequential

from d4explain import Client, RefusedError
from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.main import main
from d4explain.contracts.gnn_files.gnn_archive import SPEC, WEIGHTS, GnnArchive, write_archive
from d4explain.contracts.job_states import GnnState
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library


@pytest.fixture
def client(served):
    with Client(str(served.client.base_url)) as client:
        yield client


def register_with_probe(served, register):
    """Call `register` while a worker runs the probe; return its result."""

    def probe():
        library = Library(served.store.artifacts, torch.device("cpu"))
        Runner(served.store, library, HANDLERS, "w").run(served.queued("probe")[0])

    worker = served.soon(probe, when=lambda: bool(served.queued("probe")))
    try:
        return register()
    finally:
        worker.join()


@pytest.fixture
def exported(tmp_path, monkeypatch, capsys):
    """A folder with spec.json, weights.safetensors and gnn.zip, as the command writes them."""
    monkeypatch.chdir(tmp_path)
    # PyG replaces `forward` of the class if the module of a Sequential can be imported.
    monkeypatch.setattr(Sequential, "forward", Sequential.forward)
    module = tmp_path / "mine.py"
    module.write_text(
        "import torch\nfrom torch import nn\n"
        "from torch_geometric.nn import GCNConv, Sequential, global_mean_pool\n"
        "torch.manual_seed(0)\n"
        "model = Sequential('x, edge_index, batch', [(GCNConv(1, 4), 'x, edge_index -> x'),"
        "(global_mean_pool, 'x, batch -> x'), (nn.Linear(4, 2), 'x -> x')])\n"
    )
    run("export", "mine.py:model", "--out", "out", "--archive")
    assert "gnn.zip" in capsys.readouterr().out
    return tmp_path / "out"


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)


def test_an_exported_archive_is_registered_changed_and_deleted(served, exported, client, capsys):
    url = ("--url", str(served.client.base_url))
    archive = GnnArchive((exported / "gnn.zip").read_bytes())
    assert archive.read(SPEC, 10_000) == (exported / SPEC).read_bytes()
    assert archive.read(WEIGHTS, 10_000) == (exported / WEIGHTS).read_bytes()

    zipped = ("register", str(exported / "gnn.zip"), "--name", "my motifs", "--tag", "seed=0")
    register_with_probe(served, lambda: run(*zipped, "--description", "by hand", *url))
    assert "is ready: my motifs@1" in capsys.readouterr().out
    first = client.gnn("my motifs")
    assert (first.version, first.tags, first.description) == (1, {"seed": "0"}, "by hand")

    samples = exported / "samples.json"
    graphs = [{"edge_index": [[0], [1]], "num_nodes": 2, "label": label} for label in (0, 1)]
    samples.write_text(json.dumps({"graphs": graphs, "min_accuracy": 0.5}))
    plain = ("register", str(exported / SPEC), str(exported / WEIGHTS), "--name", "my motifs")
    # Both samples are the same graph and get the same class.
    with pytest.raises(SystemExit) as ended:
        register_with_probe(served, lambda: main((*plain, "--samples", str(samples), *url)))
    assert ended.value.code == ExitCode.UNSUCCESSFUL
    assert "samples_classes" in capsys.readouterr().out
    assert client.gnn("my motifs@2").state is GnnState.REJECTED

    run("gnns", "alias", "my motifs", "production", "1", *url)
    run("gnns", "change", "my motifs", "--tag", "seed=", "--tag", "stage=beta", *url)
    capsys.readouterr()
    run("gnns", "list", "--name", "my motifs", *url)
    listed = capsys.readouterr().out
    assert "production" in listed
    assert "stage=beta" in listed
    assert "rejected" in listed
    run("gnns", "show", "my motifs@production", "--json", *url)
    assert json.loads(capsys.readouterr().out)["id"] == first.id
    run("gnns", "unalias", "my motifs", "production", *url)
    run("gnns", "delete", "my motifs@1", *url)
    assert [gnn.version for gnn in client.gnns("my motifs")] == [2]


def test_reference_sets_are_posted_listed_and_deleted(served, client, tmp_path, capsys):
    url = ("--url", str(served.client.base_url))
    graphs = tmp_path / "graphs.json"
    graphs.write_text(json.dumps({"graphs": [{"edge_index": [[0, 1], [1, 2]]}] * 2}))
    run("datasets", "create", str(graphs), "--name", "paths [1]", *url)
    (dataset,) = client.datasets()
    assert (
        capsys.readouterr().out == f"{dataset.id} (paths [1]@1): 2 graphs of 3.0 nodes on average\n"
    )
    assert (dataset.name, dataset.mean_edges) == ("paths [1]", 2.0)
    run("datasets", "list", *url)
    listed = capsys.readouterr().out
    assert dataset.id in listed
    assert "paths [1]@1" in listed
    run("datasets", "delete", dataset.id, *url)
    assert not list(client.datasets())


def test_the_client_handles_versions_aliases_and_tags(served, client):
    spec = json.loads(served.spec().model_dump_json())
    members = {SPEC: json.dumps(spec).encode(), WEIGHTS: served.weights()}
    ids = [served.gnn(), served.gnn()]
    assert [gnn.id for gnn in client.gnns("a GNN")] == ids[::-1]
    assert client.set_alias("a GNN", "production", 1).id == ids[0]
    assert client.gnn("a GNN@production").aliases == ["production"]
    assert client.change_gnn("a GNN@2", tags={"a": "1"}, description="d").tags == {"a": "1"}
    assert client.change_gnn("a GNN@2", tags={"a": None}).description == "d"
    with pytest.raises(RefusedError, match="has the alias production"):
        client.delete_gnn("a GNN@1")
    client.remove_alias("a GNN", "production")
    client.delete_gnn("a GNN@1")
    with pytest.raises(RefusedError, match="no version 1"):
        client.gnn("a GNN@1")

    # Equal weights make a constant GNN, which the probe rejects.
    packed = write_archive(members)
    rejected = register_with_probe(
        served, lambda: client.register_archive("flat", packed, tags={"b": "2"})
    )
    assert rejected.state is GnnState.REJECTED
    assert rejected.tags == {"b": "2"}
    assert rejected.report is not None
    assert any(check.example is not None for check in rejected.report.checks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("spec.json",), "a .zip file of both, or MODULE:OBJECT"),
        (("gnn.zip", "--samples", "s.json"), "--samples is for spec.json with WEIGHTS"),
        (("net.py:net",), "--samples is missing"),
        (("net.py:net", "w.safetensors", "--samples", "s.json"), "leave out w.safetensors"),
        (("net.py:net", "--samples", "s.json"), "s.json cannot be read"),
        (("net.py:net", "--samples", "net.py:graphs"), "no such file: net.py"),
        (("spec.json", "w.safetensors", "--class-names", "a,b"), "--class-names is for a MODULE"),
        (
            ("spec.json", "w.safetensors", "--name", "set_1"),
            "should not begin with 'gnn_' or 'set_'",
        ),
        (("none.zip",), "no such file: none.zip"),
        (("spec.json", "w.safetensors", "--tag", "seed"), "'seed' is not KEY=VALUE"),
    ],
)
def test_invalid_registrations_are_refused_before_they_are_sent(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(("register", "--name", "g", *arguments))
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
