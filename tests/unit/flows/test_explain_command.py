"""`d4explain explain` against a real server: what it shows of provisional and final answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from d4explain.cli.main import main
from d4explain.contracts.job_states import JobKind
from tests.unit.flows.test_transfer import SPEC, edge_counter, ring

torch.set_num_threads(1)


@pytest.fixture
def command(served: Any, tmp_path: Path) -> list[str]:
    """The command for a GNN without a denoiser; the reference set is too small for witnesses."""
    gnn = served.client.post(
        "/v1/gnns",
        data={"name": "edges", "spec": json.dumps(SPEC)},
        files={"weights": ("w", edge_counter(20.5))},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    served.work()
    graphs = [ring(nodes) for nodes in (5, 6, 7, 8)]
    dataset = served.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs}).json()
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(ring(6, 1)))
    names = ["--gnn", gnn.json()["id"], "--dataset", dataset["id"]]
    return ["explain", str(file), *names, "--url", str(served.client.base_url)]


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def test_the_command_returns_with_the_provisional_answer(
    served: Any, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    thread = served.soon(
        lambda: served.work(kinds={JobKind.PROVISIONAL}), lambda: bool(served.queued("provisional"))
    )
    run(*command, "--wait-for", "provisional")
    thread.join()
    shown = capsys.readouterr()
    assert "Provisional counterfactuals" in shown.out
    assert "The final answer will add" in shown.out
    assert served.queued("train")


def test_the_command_shows_a_provisional_answer_that_is_the_last_with_the_reason(
    served: Any, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def answer_and_cancel() -> None:
        (training,) = served.queued("train")
        served.work(kinds={JobKind.PROVISIONAL})
        assert served.client.post(f"/v1/jobs/{training}/cancel").status_code == 200

    thread = served.soon(answer_and_cancel, lambda: bool(served.queued("provisional")))
    run(*command, "--wait-for", "final")
    thread.join()
    shown = capsys.readouterr()
    assert "This answer is provisional" in shown.out
    assert "Provisional counterfactuals" in shown.err
    assert "there is no final answer" in shown.err
