"""Global counterfactuals by the command line and by both clients, against a real server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from d4explain import AsyncClient, Client
from d4explain.cli.main import main
from d4explain.client.resources import Explanation
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from tests.unit.flows.served_api import serving
from tests.unit.flows.test_global import SPEC, oxygen_counter, reference

torch.set_num_threads(1)
QUICK: Any = {"preset": "fast", "count": 2, "theta": 0.15, "seed": 3}
FLAGS = ("--preset", "fast", "--count", "2", "--theta", "0.15", "--seed", "3")


@pytest.fixture(scope="module")
def address(deployed: Callable[..., Any]) -> Iterator[str]:
    """A server with a worker, the GNN `oxygen` and its reference set."""
    with serving(deployed()) as url:
        with Client(url) as client:
            client.register_gnn("oxygen", SPEC, oxygen_counter())
            client.create_dataset("oxygen", reference())
        yield url


def command(address: str, *arguments: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "explain-global",
                "--gnn",
                "oxygen",
                "--from",
                "harmless",
                *arguments,
                "--url",
                address,
            ]
        )
    assert ended.value.code == code


def answered_by_both(address: str) -> tuple[GlobalResult, GlobalResult]:
    with Client(address) as client:
        result = client.result(client.explain_global("oxygen", "oxygen", "harmless", **QUICK))

    async def ask() -> Any:
        async with AsyncClient(address) as client:
            asked = await client.explain_global("oxygen", "oxygen", 0, target_class=1, **QUICK)
            return await client.result(asked)

    other = asyncio.run(ask())
    assert isinstance(result, GlobalResult)
    assert isinstance(other, GlobalResult)
    return result, other


def test_both_clients_get_the_same_answer(address: str) -> None:
    result, other = answered_by_both(address)
    assert result.counterfactuals == other.counterfactuals  # of two classes, any other is class 1
    assert (result.target_class, other.target_class) == (None, 1)
    assert result.covered_count > 0


def test_answers_draw_all_counterfactuals_or_one(address: str) -> None:
    with Client(address) as client:
        explanation: Explanation = client.explain_global("oxygen", "oxygen", "harmless", **QUICK)
        answers = client.answers(explanation).wait()
        count = len(answers.examples)
        assert repr(answers).endswith(f"{count} global counterfactuals>")
        assert answers.draw().svg.count("harmful (") == count == 2
        assert "counterfactual 2 of 2" in answers.draw(1).svg
        assert answers.examples[0].to_networkx().number_of_nodes() > 0
        estimate = client.estimate_global("oxygen", "oxygen", "harmless", **QUICK)
        assert (estimate.cases, estimate.trains_denoiser) == ([], False)


def test_the_command_shows_shares_curves_and_rules(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "all.svg"
    command(address, *FLAGS, "--svg", str(picture))
    shown = capsys.readouterr().out
    assert re.search(r"\d+ of the 21 graphs that the GNN calls harmless \(\d+\.\d%\)", shown)
    assert "Coverage by theta" in shown
    assert re.search(r"[CN] becomes O", shown)
    assert picture.read_text().startswith("<svg")


def test_the_command_prints_json_estimates_and_refusals(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command(address, *FLAGS, "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["result"]["kind"] == "global"
    command(address, *FLAGS, "--dry-run")
    assert re.fullmatch(r"total: about \S+ s on one core\n", capsys.readouterr().out)
    command(address, *FLAGS, "--no-wait")
    assert capsys.readouterr().out.startswith("exp_")
    with pytest.raises(SystemExit) as ended:
        main(["explain-global", "--gnn", "oxygen", "--from", "mild", "--url", address])
    assert ended.value.code != 0
    assert "/source_class" in capsys.readouterr().err
