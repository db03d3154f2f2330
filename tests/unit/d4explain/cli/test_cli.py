"""The command line: errors are one line and an exit code, results are tables."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from rich.console import Console

from d4explain.cli.commands.options import graphs_of
from d4explain.cli.doctor_checks import Status, run_checks
from d4explain.cli.main import COMMANDS, main
from d4explain.cli.progress_bars import JobProgressBars, format_metrics
from d4explain.cli.tables import counterfactual_table, format_edits, summary_lines
from d4explain.client.address import api_address
from d4explain.client.resources import Job, Progress
from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.requests import Preset
from d4explain.contracts.results import CounterfactualResult, Edit
from d4explain.demo import Verification
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


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a failing command says; it must fail, and not with a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""
    return said.err


def test_help_lists_the_commands(tmp_path: Path) -> None:
    told = run("--help", cwd=tmp_path)
    assert told.returncode == 0
    for command in COMMANDS:
        assert command in told.stdout


def test_the_command_line_needs_no_torch(tmp_path: Path) -> None:
    code = "import sys, d4explain.cli.main; print('torch' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout == "False\n"


def test_nobody_at_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    said = complaint(capsys, "jobs", "list", "--url", address)
    assert f"no server answers at {address}" in said
    assert "d4explain up" in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "holds no graph"),
        ('"graph"', "holds no graph"),
    ],
)
def test_a_graph_that_cannot_be_read(
    content: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "g.json").write_text(content)
    said = complaint(capsys, "explain", "g.json", "--gnn", "gnn_1", "--dataset", "set_1")
    assert "g.json" in said
    assert words in said


def test_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "explain", "--gnn", "gnn_1", "--dataset", "set_1")
    assert "nothing to explain" in said


def test_weights_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.json").write_text("{}")
    said = complaint(capsys, "register", "--name", "g", "spec.json", "none.safetensors")
    assert "there is no file none.safetensors" in said


def test_a_setting_that_is_no_number(tmp_path: Path) -> None:
    told = run("up", cwd=tmp_path, environment={"D4_PORT": "eighty"})
    assert told.returncode == 1
    assert told.stderr == "Error: D4_PORT is 'eighty'; it must be a whole number\n"


def test_only_loopback_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a loopback address" in complaint(capsys, "up", "--host", "0.0.0.0")
    assert "not a loopback address" in complaint(capsys, "up", "--host", "example.org")


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = complaint(capsys, "up", "--port", str(port))
    assert f"port {port} on 127.0.0.1 is taken" in said
    assert not (tmp_path / "data" / "broker").exists()


def test_a_folder_that_is_served_already(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lock = DataFolderLock(tmp_path / "data")
    lock.acquire("http://127.0.0.1:9")
    said = complaint(capsys, "up", "--port", "0")
    assert f"already served by pid {os.getpid()} at http://127.0.0.1:9" in said
    assert api_address() == "http://127.0.0.1:9"
    lock.release()
    assert api_address() == "http://127.0.0.1:8400"


def test_a_broker_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("D4_REDIS_URL", f"redis://:secret@127.0.0.1:{port}/0")
    said = complaint(capsys, "up", "--port", "0")
    assert f"no Redis answers at redis://***@127.0.0.1:{port}/0" in said
    assert "secret" not in said


def test_an_address_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D4_URL", "http://there:1")
    assert api_address() == "http://there:1"
    assert api_address("http://here:2") == "http://here:2"


def test_the_doctor_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_doctor_says_where_the_broker_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_graphs_are_found_however_they_are_wrapped(wrapped: object) -> None:
    assert graphs_of(wrapped, Path("g.json")) == [{"nodes": []}]


def test_the_attributes_of_a_node_link_graph_are_not_the_graph() -> None:
    document = {"nodes": [], "edges": [], "graph": {"name": "g"}}
    assert graphs_of(document, Path("g.json")) == [document]


def test_graphs_must_be_objects() -> None:
    with pytest.raises(CommandError):
        graphs_of({"graphs": [1]}, Path("g.json"))


# How things look


def edit(action: str, source: str, by: str = "denoiser") -> dict[str, object]:
    return {
        "action": action,
        "source": source,
        "target": "b",
        "plausibility": -1.0,
        "proposed_by": by,
    }


def result() -> CounterfactualResult:
    graph = {"nodes": [{"id": "a", "x": [1.0]}, {"id": "b", "x": [1.0]}], "edges": []}
    before = {"predicted_class": 0, "probabilities": [0.9, 0.1]}
    found = {
        "graph": graph,
        "edits": [edit("add", "[red]a"), edit("remove", "c", "search")],
        "prediction": {"predicted_class": 1, "probabilities": [0.2, 0.8]},
        "confidence": 0.8,
        "denoiser_likelihood": -1.0,
        "fidelity": 0.7,
        "modification_ratio": 0.25,
        "connected": True,
        "found_by": "denoiser",
    }
    answer = {"graph": graph, "prediction": before, "diversity": None, "gnn_evaluations": 5}
    answer |= {"closest_miss": None, "seconds": 0.1}
    return CounterfactualResult.model_validate(
        {
            "answers": [
                {**answer, "found": True, "reason": None, "counterfactuals": [found]},
                {**answer, "found": False, "reason": "budget used up", "counterfactuals": []},
            ],
            "summary": {
                "graph_count": 2,
                "found_count": 1,
                "flip_rate": 0.5,
                "mean_edits": 2.0,
                "mean_modification_ratio": 0.25,
                "mean_fidelity": None,
                "mean_confidence": 0.8,
                "edits_by_denoiser": 1,
                "edits_by_search": 1,
            },
            "mmd": None,
            "timings": {"load_seconds": 0.1, "explain_seconds": 1, "mmd_seconds": 0},
            "receipt": {
                "request_sha256": "",
                "gnn_sha256": "",
                "dataset_sha256": "",
                "denoiser_sha256": "",
                "denoiser_key": "",
                "config": {},
                "seed": 0,
                "device": "cpu",
                "versions": {},
                "work": {},
            },
            "warnings": [],
        }
    )


def printed(content: object) -> str:
    console = Console(width=160, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(content)
    return console.export_text()


def test_counterfactuals_are_shown_with_edits_and_misses_with_reasons() -> None:
    lines = printed(counterfactual_table(result())).splitlines()
    row = next(line for line in lines if "0 → 1" in line)
    for words in ("+[red]a:b", "-c:b", "0.25", "0.80", "denoiser"):
        assert words in row
    assert any("budget used up" in line for line in lines)


def test_nodes_are_shown_by_their_ids() -> None:
    document = result().model_dump(mode="json")
    for answer, name in zip(document["answers"], ("[b]x", 7), strict=True):
        answer["node"] = {
            "id": name,
            "hops": 2,
            "node_count": 2,
            "edge_count": 0,
            "frozen_pair_count": 0,
        }
    shown = CounterfactualResult.model_validate(document)
    lines = printed(counterfactual_table(shown)).splitlines()
    assert any(line.split()[:2] == ["node", "edges"] for line in lines)
    assert any(line.strip().startswith("[b]x") and "0 → 1" in line for line in lines)
    assert "flipped 1 of 2 nodes" in summary_lines(shown)[0]


def test_the_summary_tells_denoiser_and_search_apart() -> None:
    flips, edits = summary_lines(result())
    assert "1 of 2 graphs (50%)" in flips
    assert "denoiser 1" in edits
    assert "the search 1" in edits


def test_node_ids_are_never_taken_for_markup() -> None:
    edits = [Edit.model_validate(edit("add", "[bold]x"))]
    assert "[bold]x" in printed(format_edits(edits))


def test_metrics_are_short() -> None:
    words = format_metrics({"loss": 0.123456, "loss_cf": 1.0, "flip_rate": 0.5, "auc": None})
    assert words == "loss 0.123  flips 0.5"


def a_job(state: JobState, step: int) -> Job:
    return Job(
        id="job_1",
        kind=JobKind.TRAIN,
        state=state,
        progress=Progress(step=step, total=10, metrics={"loss": 0.5}),
        created_at="now",
    )


def test_bars_become_lines_where_nothing_can_move(tmp_path: Path) -> None:
    with (
        (tmp_path / "out").open("w") as file,
        JobProgressBars(Console(file=file, width=100)) as bars,
    ):
        for step in range(10):
            bars(a_job(JobState.RUNNING, step))
        bars(a_job(JobState.SUCCEEDED, 10))
    assert (tmp_path / "out").read_text() == "training the denoiser 10/10 loss 0.5\n"


@pytest.mark.parametrize(
    ("flipped", "contradicted", "passed"), [(20, 0, True), (19, 0, False), (24, 1, False)]
)
def test_the_demos_verdict(flipped: int, contradicted: int, passed: bool) -> None:
    assert Verification(graphs=25, flipped=flipped, contradicted=contradicted).passed is passed


class Refusing(BaseHTTPRequestHandler):
    """Records every POST body and answers 422."""

    posted: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.posted.append(json.loads(self.rfile.read(length)))
        self.send_response(422)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


@pytest.mark.parametrize(
    ("given", "preset"), [((), "balanced"), (("--preset", "thorough"), "thorough")]
)
@pytest.mark.parametrize("subject", [("g.json",), ("--class", "1")])
def test_the_preset_is_posted(
    given: tuple[str, ...],
    preset: str,
    subject: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "g.json").write_text(json.dumps({"edge_index": [[0], [1]], "num_nodes": 2}))
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", url)
        said = complaint(capsys, "explain", *subject, *names, *given)
    assert "422" in said
    assert Refusing.posted.pop()["preset"] == preset


NAMED = {"nodes": [{"id": 0}, {"id": "b"}], "edges": [{"source": 0, "target": "b"}]}
NUMBERED = {"edge_index": [[0], [1]], "num_nodes": 2}


@pytest.mark.parametrize(
    ("graph", "given", "posted"),
    [
        (NAMED, ["b"], ["b"]),
        (NAMED, ["b", "0"], ["b", 0]),
        (NUMBERED, ["1"], [1]),
        ({**NUMBERED, "node_ids": ["1", "0"]}, ["1"], ["1"]),
    ],
)
def test_nodes_are_posted_as_the_file_names_them(
    graph: dict[str, Any],
    given: list[str],
    posted: list[int | str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(graph))
    nodes = [word for node in given for word in ("--node", node)]
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", url)
        complaint(capsys, "explain", "g.json", *names, *nodes)
    assert Refusing.posted.pop()["nodes"] == posted


def test_nodes_without_a_graph_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", url)
        complaint(capsys, "explain", *names, "--node", "123", "--node", "7")
    posted = Refusing.posted.pop()
    assert posted["nodes"] == [123, 7]
    assert not {"graph", "graphs"} & posted.keys()
    said = complaint(capsys, "explain", *names, "--node", "a")
    assert "numbered from 0" in said


def test_only_known_files_are_uploaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no file" in complaint(capsys, "upload", str(tmp_path / "g.npz"), "--name", "g")
    (tmp_path / "g.csv").write_text("")
    said = complaint(capsys, "upload", str(tmp_path / "g.csv"), "--name", "g")
    assert ".npz, .ndjson and .parquet" in said


def test_the_query_budget_is_posted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.json").write_text(json.dumps(NUMBERED))
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", url)
        complaint(capsys, "explain", "g.json", *names, "--max-queries", "500")
    assert Refusing.posted.pop()["max_queries"] == 500


def test_weights_beside_a_predict_url(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--name", "g", "--predict-url", "http://gnn.example.org/")
    for files in (("spec.json", "weights.safetensors"), ("gnn.zip",)):
        assert "not both" in complaint(capsys, "register", *files, *names)


def test_smiles_are_posted_as_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        names = ("--gnn", "gnn_1", "--dataset", "set_1", "--url", url)
        complaint(capsys, "explain", *names, "--smiles", "CCO", "--valid-molecule")
    posted = Refusing.posted.pop()
    assert posted["graph"] == {"smiles": "CCO"}
    assert posted["constraints"]["valid_molecule"] is True


@pytest.mark.parametrize(
    ("content", "node", "words"),
    [
        (NAMED, "c", "the graph has no node 'c'"),
        (NUMBERED, "c", "numbered from 0"),
        ([NAMED, NAMED], "b", "one graph; here are 2"),
    ],
)
def test_a_node_that_is_not_there(
    content: object, node: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_text(json.dumps(content))
    names = ("--gnn", "gnn_1", "--dataset", "set_1", "--node", node)
    assert words in complaint(capsys, "explain", "g.json", *names)


def test_an_unknown_preset_is_answered_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("explain", "--gnn", "gnn_1", "--dataset", "set_1", "--preset", "slow"))
    assert ended.value.code == 2
    said = capsys.readouterr().err
    for preset in get_args(Preset):
        assert f"'{preset}'" in said


def test_json_from_stdin_is_read(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "d4explain", "explain", "-", "--gnn", "gnn_1", "--dataset", "set_1"],
        input=json.dumps(5),
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 1
    assert "holds no graph" in told.stderr
