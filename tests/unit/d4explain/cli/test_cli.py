"""The command line: an error is one line and an exit code, a result is a table."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
import typer
from pydantic import BaseModel

from d4explain.cli.doctor_checks import Status, run_checks
from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.input.files import graphs_in
from d4explain.cli.main import COMMANDS, command_app, main
from d4explain.client.address import api_address
from d4explain.contracts.requests import Preset
from d4explain.errors import CommandError
from d4explain.stack.folder_lock import DataFolderLock
from d4explain.stack.ports import free_port
from service.schemas import ClassIn, ConstraintsIn, CounterfactualIn

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


def error_output(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: ExitCode = ExitCode.ERROR
) -> str:
    """Run a command that must fail, and return its error message."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == code
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
    error = error_output(capsys, "jobs", "list", "--url", address, code=ExitCode.UNREACHABLE)
    assert f"no server answers at {address}" in error
    assert "d4explain up" in error


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ('{"nodes": [{"id": 0, "x": [NaN]}]}', "is not JSON: it contains NaN"),
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


CLASS_NAMES = ["1", "0", "other"]


class RefusingHandler(BaseHTTPRequestHandler):
    """Has every GNN; records every POST body and answers 422."""

    posted: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        gnn = {
            "id": "gnn_1",
            "name": "motifs",
            "state": "ready",
            "sha256": "",
            "spec": {"class_names": CLASS_NAMES},
            "job_id": "job_1",
            "created_at": "2026-11-18T00:00:00Z",
        }
        self._answer(200, json.dumps(gnn).encode())

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posted.append(json.loads(self.rfile.read(length)))
        self._answer(422)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def posted(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., dict[str, Any]]]:
    """Runs `explain` with an API that refuses the request; returns the posted body."""
    with ThreadingHTTPServer(("127.0.0.1", 0), RefusingHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"

        def run_explain(*arguments: str) -> dict[str, Any]:
            command = ("explain", "--gnn", "motifs", "--url", address, *arguments)
            assert "422" in error_output(capsys, *command, code=ExitCode.REFUSED)
            return RefusingHandler.posted.pop()

        yield run_explain
        server.shutdown()
        thread.join()


NAMES = ("--gnn", "gnn_1", "--dataset", "set_1")


def test_only_given_options_are_posted(posted: Callable[..., dict[str, Any]]) -> None:
    """The API has the defaults; the reference set has the name of the GNN."""
    Path("g.json").write_text(json.dumps(NUMBERED_NODES))
    body = {"kind": "counterfactual", "gnn": "gnn_1", "dataset": "motifs", "graph": NUMBERED_NODES}
    assert posted("g.json") == body
    assert posted("--class", "other") == {
        "kind": "class",
        "gnn": "gnn_1",
        "dataset": "motifs",
        "target_class": "other",
    }


def test_all_options_for_graphs_are_posted(posted: Callable[..., dict[str, Any]]) -> None:
    Path("g.json").write_text(json.dumps(NAMED_NODES))
    given = (
        "--dataset s@2 --class other --aim both --judge a@1 --judge b --alternatives 5 "
        "--max-edits 4 --max-ratio 0.5 --actions add --keep-connected --valid-molecule "
        "--allow-unseen --frozen-node b --frozen-edge 0:b --explainer search --preset thorough "
        "--seed 7 --time-budget 9.5 --max-queries 500 --denoiser steps=60 --denoiser recipe=paper "
        "--node b"
    )
    assert posted("g.json", *given.split()) == {
        "kind": "counterfactual",
        "gnn": "gnn_1",
        "dataset": "s@2",
        "graph": NAMED_NODES,
        "nodes": ["b"],
        "target_class": "other",
        "aim": "both",
        "judges": ["a@1", "b"],
        "alternatives": 5,
        "constraints": {
            "max_edits": 4,
            "max_ratio": 0.5,
            "actions": "add",
            "keep_connected": True,
            "valid_molecule": True,
            "only_seen": False,
            "frozen_nodes": ["b"],
            "frozen_edges": [[0, "b"]],
        },
        "explainer": "search",
        "preset": "thorough",
        "seed": 7,
        "time_budget": 9.5,
        "max_queries": 500,
        "denoiser": {"steps": 60, "recipe": "paper"},
    }


def test_all_options_for_classes_are_posted(posted: Callable[..., dict[str, Any]]) -> None:
    given = (
        "--class other --node-count 5 --example-count 3 --preset fast --candidates 4 --steps 6 "
        "--regulariser size=0.5 --regulariser valence=1 --explainer d4-paper --seed 2 "
        "--time-budget 60 --denoiser den_1"
    )
    assert posted(*given.split()) == {
        "kind": "class",
        "gnn": "gnn_1",
        "dataset": "motifs",
        "target_class": "other",
        "node_count": 5,
        "example_count": 3,
        "preset": "fast",
        "candidates": 4,
        "steps": 6,
        "regularisers": {"size": 0.5, "valence": 1},
        "explainer": "d4-paper",
        "seed": 2,
        "time_budget": 60.0,
        "denoiser": "den_1",
    }


def fields_and_defaults(body: type[BaseModel]) -> dict[str, object]:
    """The JSON defaults by field; None if there is none."""
    schema = body.model_json_schema(mode="serialization")
    return {name: field.get("default") for name, field in schema["properties"].items()}


def test_explain_has_an_option_for_every_field_of_the_request() -> None:
    """A new field without an option fails here; so does a help text with another default."""
    command = command_app(["explain"])
    explain = typer.main.get_command(command).commands["explain"]  # type: ignore[attr-defined]
    options = {option.name: option for option in explain.params}
    names = {
        "kind": None,  # follows from what is given
        "webhook": None,  # the command waits itself; a secret would show in the process list
        "graphs": "graph",
        "nodes": "node",
        "target_class": "target",
        "judges": "judge",
        "only_seen": "allow_unseen",
        "frozen_nodes": "frozen_node",
        "frozen_edges": "frozen_edge",
        "regularisers": "regulariser",
    }
    negated_flags_and_lists = (None, False, True, [], {})
    for body in (CounterfactualIn, ClassIn, ConstraintsIn):
        for field, default in fields_and_defaults(body).items():
            name = names.get(field, field)
            if name is None:
                continue
            assert name in options, f"explain has no option for {body.__name__}.{field}"
            if default not in negated_flags_and_lists:
                assert str(default) == options[name].show_default, field


@pytest.mark.parametrize(
    ("text", "reference"),
    [("1", "1"), ("0", "0"), ("2", 2), ("other", "other"), ("7", 7), ("-1", "-1")],
)
@pytest.mark.parametrize("subject", [("g.json",), ()])
def test_a_class_is_a_name_or_else_a_number(
    text: str,
    reference: int | str,
    subject: tuple[str, ...],
    posted: Callable[..., dict[str, Any]],
) -> None:
    """The classes are called 1, 0 and other: `--class 1` is the one that tables call 1."""
    Path("g.json").write_text(json.dumps(NUMBERED_NODES))
    assert posted(*subject, f"--class={text}")["target_class"] == reference


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--class", "1", "--aim", "both", "--frozen-node", "1"),
            "--aim and --frozen-node are for ",
        ),
        (("--class", "1", "--dry-run"), "--dry-run is for graphs and nodes, not for a class"),
        (("g.json", "--example-count", "3"), "--example-count is for a class, not for graphs"),
        (("g.json", "--svg", "x.svg", "--no-wait"), "--svg is for an answer"),
        (("g.json", "--wait-for", "final", "--no-wait"), "--wait-for is for an answer"),
        (("g.json", "--timeout", "9", "--dry-run"), "--timeout is for an answer"),
        (("g.json", "--no-wait", "--dry-run"), "--no-wait is for an answer"),
        (("g.json", "--svg", "none/x.svg"), "there is no folder none"),
        (("g.json", "--svg", "."), "it is a folder"),
        (("g.json", "--frozen-edge", "1"), "it should be A:B"),
        (("g.json", "--denoiser", "steps=1", "--denoiser", "den_1"), "'den_1' is not KEY=VALUE"),
        (("g.json", "--constraints", "g.list"), "g.list is not a JSON object"),
    ],
)
def test_options_without_effect_are_refused_before_anything_is_sent(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("g.json").write_text(json.dumps(NUMBERED_NODES))
    Path("g.list").write_text("[]")
    assert expected in error_output(capsys, "explain", *NAMES, *arguments)


def test_constraints_of_several_graphs_come_from_a_file(
    posted: Callable[..., dict[str, Any]],
) -> None:
    Path("g.json").write_text(json.dumps([NUMBERED_NODES, NUMBERED_NODES]))
    Path("c.json").write_text(json.dumps({"frozen_nodes": [[0], []], "max_edits": 9}))
    body = posted("g.json", "--constraints", "c.json", "--max-edits", "2")
    assert body["constraints"] == {"frozen_nodes": [[0], []], "max_edits": 2}


def test_ids_with_colons_are_found_in_pairs(posted: Callable[..., dict[str, Any]]) -> None:
    graph = {"nodes": [{"id": "a:b"}, {"id": "c"}], "edges": []}
    Path("g.json").write_text(json.dumps(graph))
    body = posted("g.json", "--frozen-edge", "a:b:c")
    assert body["constraints"]["frozen_edges"] == [["a:b", "c"]]


NAMED_NODES = {"nodes": [{"id": 0}, {"id": "b"}], "edges": [{"source": 0, "target": "b"}]}
NUMBERED_NODES = {"edge_index": [[0], [1]], "num_nodes": 2}


@pytest.mark.parametrize(
    ("graph", "given", "expected"),
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
    expected: list[int | str],
    posted: Callable[..., dict[str, Any]],
) -> None:
    Path("g.json").write_text(json.dumps(graph))
    nodes = [word for node in given for word in ("--node", node)]
    assert posted("g.json", *nodes)["nodes"] == expected


def test_nodes_of_a_large_graph_are_posted_as_numbers(
    capsys: pytest.CaptureFixture[str], posted: Callable[..., dict[str, Any]]
) -> None:
    body = posted("--node", "123", "--node", "7")
    assert body["nodes"] == [123, 7]
    assert not {"graph", "graphs"} & body.keys()
    assert "numbered from 0" in error_output(capsys, "explain", *NAMES, "--node", "a")


def test_only_supported_files_are_uploaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no such file" in error_output(capsys, "upload", str(tmp_path / "g.npz"), "--name", "g")
    (tmp_path / "g.csv").write_text("")
    error = error_output(capsys, "upload", str(tmp_path / "g.csv"), "--name", "g")
    assert ".npz, .ndjson and .parquet" in error


def test_weights_and_predict_url_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--name", "g", "--predict-url", "http://gnn.example.org/")
    for files in (("spec.json", "weights.safetensors"), ("gnn.zip",)):
        assert "not both" in error_output(capsys, "register", *files, *names)


def test_smiles_are_posted_as_graphs(posted: Callable[..., dict[str, Any]]) -> None:
    assert posted("--smiles", "CCO")["graph"] == {"smiles": "CCO"}


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


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("--version",))
    assert ended.value.code == ExitCode.DONE
    assert capsys.readouterr().out == f"d4explain {version('d4explain')}\n"


COMPLETE = """
source <(_D4EXPLAIN_COMPLETE=source_bash d4explain)
COMP_WORDS=(d4explain expl)
COMP_CWORD=1
_d4explain_completion d4explain
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="completion is shown in bash")
def test_bash_completes_commands(tmp_path: Path) -> None:
    """With the script that --install-completion installs."""
    program = tmp_path / "d4explain"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m d4explain "$@"\n')
    program.chmod(0o755)
    shown = subprocess.run(
        ["bash", "-c", COMPLETE],
        env={**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout.split() == ["explain", "explain-global", "explanations"], shown.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gnns un", ["unalias"]),
        ("explain --fro", ["--frozen-node", "--frozen-edge"]),
        ("explain --preset th", ["thorough"]),
    ],
)
def test_subcommands_options_and_values_are_completed(
    words: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the shell asks for them, through the environment."""
    monkeypatch.setenv("_D4EXPLAIN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"d4explain {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    with pytest.raises(SystemExit):
        main(())
    assert capsys.readouterr().out.split() == expected
