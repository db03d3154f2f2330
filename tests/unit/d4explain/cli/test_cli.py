"""The command line: an error is one line and an exit code, a result is a table."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from d4explain.cli.commands.options import graphs_in
from d4explain.cli.doctor_checks import Status, run_checks
from d4explain.cli.main import COMMANDS, main
from d4explain.client.address import api_address
from d4explain.contracts.requests import Preset
from d4explain.errors import CommandError
from d4explain.stack.folder_lock import DataFolderLock
from d4explain.stack.ports import free_port

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}


def run(
    *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "d4explain", *arguments],
        cwd=cwd,
        env={**ENVIRONMENT, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("D4_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("D4_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def error_output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail, and return its error message."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    return captured.err


def test_help_lists_the_commands(tmp_path: Path) -> None:
    completed = run("--help", cwd=tmp_path)
    assert completed.returncode == 0
    for command in COMMANDS:
        assert command in completed.stdout


def test_the_command_line_needs_no_torch(tmp_path: Path) -> None:
    code = "import sys, d4explain.cli.main; print('torch' in sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert completed.stdout == "False\n"


def test_an_unreachable_server_is_reported_with_its_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    error = error_output(capsys, "jobs", "list", "--url", address)
    assert f"no server answers at {address}" in error
    assert "d4explain up" in error


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "contains no graph"),
        ('"graph"', "contains no graph"),
    ],
)
def test_an_unreadable_graph_file_is_reported(
    content: str | None, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "g.json").write_text(content)
    error = error_output(capsys, "explain", "g.json", "--gnn", "gnn_1", "--dataset", "set_1")
    assert "g.json" in error
    assert expected in error


def test_explain_needs_something_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    error = error_output(capsys, "explain", "--gnn", "gnn_1", "--dataset", "set_1")
    assert "nothing to explain" in error


def test_missing_weights_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.json").write_text("{}")
    error = error_output(capsys, "register", "--name", "g", "spec.json", "none.safetensors")
    assert "no such file: none.safetensors" in error


def test_a_setting_that_is_not_a_number_is_reported(tmp_path: Path) -> None:
    completed = run("up", cwd=tmp_path, environment={"D4_PORT": "eighty"})
    assert completed.returncode == 1
    assert completed.stderr == "Error: D4_PORT is 'eighty'; it must be a whole number\n"


def test_up_accepts_only_loopback_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a loopback address" in error_output(capsys, "up", "--host", "0.0.0.0")
    assert "not a loopback address" in error_output(capsys, "up", "--host", "example.org")


def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = error_output(capsys, "up", "--port", str(port))
    assert f"port {port} on 127.0.0.1 is in use" in error
    assert not (tmp_path / "data" / "broker").exists()


def test_a_data_folder_in_use_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lock = DataFolderLock(tmp_path / "data")
    lock.acquire("http://127.0.0.1:9")
    error = error_output(capsys, "up", "--port", "0")
    assert f"already served by pid {os.getpid()} at http://127.0.0.1:9" in error
    assert api_address() == "http://127.0.0.1:9"
    lock.release()
    assert api_address() == "http://127.0.0.1:8400"


def test_an_unreachable_redis_is_reported_without_its_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("D4_REDIS_URL", f"redis://:secret@127.0.0.1:{port}/0")
    error = error_output(capsys, "up", "--port", "0")
    assert f"no Redis answers at redis://***@127.0.0.1:{port}/0" in error
    assert "secret" not in error


def test_the_address_comes_from_the_argument_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("D4_URL", "http://there:1")
    assert api_address() == "http://there:1"
    assert api_address("http://here:2") == "http://here:2"


def test_the_doctor_finds_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("D4_PORT", str(other.getsockname()[1]))
        monkeypatch.setenv("D4_REDIS_URL", f"redis://127.0.0.1:{free_port()}")
        found = {check.name: check for check in run_checks(f"http://127.0.0.1:{free_port()}")}
    assert found["Python"].status is Status.OK
    assert found["packages"].status is Status.OK
    assert found["torch"].status is Status.OK
    assert found["data folder"].status is Status.FAILED
    assert found["port"].status is Status.FAILED
    assert found["broker"].status is Status.FAILED
    assert found["API"].status is Status.NOTE


def test_the_doctor_shows_the_origin_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D4_PORT", str(free_port()))
    found = {check.name: check for check in run_checks(f"http://127.0.0.1:{free_port()}")}
    assert "-server" in found["broker"].detail
    assert not [check for check in found.values() if check.status is Status.FAILED]


@pytest.mark.parametrize(
    "wrapped",
    [
        {"nodes": []},
        [{"nodes": []}],
        {"graphs": [{"nodes": []}]},
        {"graph": {"nodes": []}},  # the body of a prediction, as in the README
    ],
)
def test_graphs_are_found_in_every_accepted_document(wrapped: object) -> None:
    assert graphs_in(wrapped, Path("g.json")) == [{"nodes": []}]


def test_the_graph_attributes_of_node_link_json_are_not_a_graph() -> None:
    document = {"nodes": [], "edges": [], "graph": {"name": "g"}}
    assert graphs_in(document, Path("g.json")) == [document]


def test_graphs_must_be_objects() -> None:
    with pytest.raises(CommandError):
        graphs_in({"graphs": [1]}, Path("g.json"))


class RefusingHandler(BaseHTTPRequestHandler):
    """Records every POST body and answers 422."""

    posted: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posted.append(json.loads(self.rfile.read(length)))
        self.send_response(422)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def refusing_api() -> Iterator[str]:
    """The address of an API that refuses one request."""
    with HTTPServer(("127.0.0.1", 0), RefusingHandler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize(
    ("given", "preset"), [((), "balanced"), (("--preset", "thorough"), "thorough")]
)
@pytest.mark.parametrize("subject", [("g.json",), ("--class", "1")])
def test_the_preset_is_posted(
    given: tuple[str, ...],
    preset: str,
    subject: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    refusing_api: str,
) -> None:
    Path("g.json").write_text(json.dumps({"edge_index": [[0], [1]], "num_nodes": 2}))
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", refusing_api)
    error = error_output(capsys, "explain", *subject, *names, *given)
    assert "422" in error
    assert RefusingHandler.posted.pop()["preset"] == preset


NAMED_NODES = {"nodes": [{"id": 0}, {"id": "b"}], "edges": [{"source": 0, "target": "b"}]}
NUMBERED_NODES = {"edge_index": [[0], [1]], "num_nodes": 2}


@pytest.mark.parametrize(
    ("graph", "given", "posted"),
    [
        (NAMED_NODES, ["b"], ["b"]),
        (NAMED_NODES, ["b", "0"], ["b", 0]),
        (NUMBERED_NODES, ["1"], [1]),
        ({**NUMBERED_NODES, "node_ids": ["1", "0"]}, ["1"], ["1"]),
    ],
)
def test_nodes_are_posted_with_the_ids_of_the_file(
    graph: dict[str, Any],
    given: list[str],
    posted: list[int | str],
    capsys: pytest.CaptureFixture[str],
    refusing_api: str,
) -> None:
    Path("g.json").write_text(json.dumps(graph))
    nodes = [word for node in given for word in ("--node", node)]
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", refusing_api)
    error_output(capsys, "explain", "g.json", *names, *nodes)
    assert RefusingHandler.posted.pop()["nodes"] == posted


def test_nodes_of_a_large_graph_are_posted_as_numbers(
    capsys: pytest.CaptureFixture[str], refusing_api: str
) -> None:
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", refusing_api)
    error_output(capsys, "explain", *names, "--node", "123", "--node", "7")
    posted = RefusingHandler.posted.pop()
    assert posted["nodes"] == [123, 7]
    assert not {"graph", "graphs"} & posted.keys()
    error = error_output(capsys, "explain", *names, "--node", "a")
    assert "numbered from 0" in error


def test_only_supported_files_are_uploaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no such file" in error_output(capsys, "upload", str(tmp_path / "g.npz"), "--name", "g")
    (tmp_path / "g.csv").write_text("")
    error = error_output(capsys, "upload", str(tmp_path / "g.csv"), "--name", "g")
    assert ".npz, .ndjson and .parquet" in error


def test_the_query_budget_is_posted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refusing_api: str
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(NUMBERED_NODES))
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", refusing_api)
    error_output(capsys, "explain", "g.json", *names, "--max-queries", "500")
    assert RefusingHandler.posted.pop()["max_queries"] == 500


def test_weights_and_predict_url_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--name", "g", "--predict-url", "http://gnn.example.org/")
    for files in (("spec.json", "weights.safetensors"), ("gnn.zip",)):
        assert "not both" in error_output(capsys, "register", *files, *names)


def test_smiles_are_posted_as_graphs(capsys: pytest.CaptureFixture[str], refusing_api: str) -> None:
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", refusing_api)
    error_output(capsys, "explain", *names, "--smiles", "CCO", "--valid-molecule")
    posted = RefusingHandler.posted.pop()
    assert posted["graph"] == {"smiles": "CCO"}
    assert posted["constraints"]["valid_molecule"] is True


@pytest.mark.parametrize(
    ("content", "node", "expected"),
    [
        (NAMED_NODES, "c", "the graph has no node 'c'"),
        (NUMBERED_NODES, "c", "numbered from 0"),
        ([NAMED_NODES, NAMED_NODES], "b", "needs exactly one graph; got 2"),
    ],
)
def test_an_unknown_node_is_reported(
    content: object, node: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(content))
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--node", node)
    assert expected in error_output(capsys, "explain", "g.json", *names)


def test_an_unknown_preset_lists_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(("explain", "--gnn", "gnn_1", "--dataset", "set_1", "--preset", "slow"))
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    for preset in get_args(Preset):
        assert f"'{preset}'" in error


def test_json_from_stdin_is_read(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "d4explain", "explain", "-", "--gnn", "gnn_1", "--dataset", "set_1"],
        input=json.dumps(5),
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert completed.returncode == 1
    assert "contains no graph" in completed.stderr
