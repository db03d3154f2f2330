"""Every command against the real API: what it prints, and which routes it asks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d4explain.cli.main import main
from d4explain.contracts.scopes import DEFAULT_TENANT, Scope
from service.glossary.page import openapi_document
from store.access import api_keys
from store.audit import chain as audit_chain
from store.store import Store
from tests.unit.d4explain.cli.test_cli_page import documented_routes
from tests.unit.flows.served_api import serving

CLIENT_PAGE = Path(__file__).parents[3] / "docs" / "client.md"
FAST = "--explainer search --aim minimal --judge none"


OFFLINE = "verify"  # the command that asks no service


@dataclass
class Shell:
    """Runs commands in this process and records the routes that they ask."""

    capsys: pytest.CaptureFixture[str]
    routes: dict[str, re.Pattern[str]]  # by method and path template
    address: str = ""
    store: Store | None = None
    errors: str = ""  # what the last command printed on stderr
    paths: list[str] = field(default_factory=list)  # of all requests
    asked: set[str] = field(default_factory=set)
    seen: dict[str, set[str]] = field(default_factory=dict)  # routes by command

    def on_request(self, method: str, path: str) -> None:
        self.paths.append(path)
        for route, pattern in self.routes.items():
            if route.startswith(f"{method} ") and pattern.fullmatch(path):
                self.asked.add(route)
                return  # fixed paths come before templates

    def run(self, line: str, code: int = 0) -> str:
        """What the command printed on stdout."""
        words = shlex.split(line)
        self.asked = set()
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words if words[0] == OFFLINE else [*words, "--url", self.address])
        shown = self.capsys.readouterr()
        assert ended.value.code == code, shown.err
        self.errors = shown.err
        name = " ".join(words[:2])
        name = name if name in documented_routes() else words[0]
        self.seen.setdefault(name, set()).update(self.asked)
        return shown.out

    def json(self, line: str) -> Any:
        return json.loads(self.run(f"{line} --json"))


@pytest.fixture
def shell(
    deployed: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Shell]:
    """In a folder with chains.py, which trains a small model, and graph files."""
    blocks = re.findall(r"```python\n(.*?)```", CLIENT_PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("chains.py").write_text(f"{blocks[0]}print('trained')\n")
    open_chain = {"edge_index": [[0, 1, 2, 3], [1, 2, 3, 4]], "x": [[1.0]] * 5}
    Path("chain.json").write_text(json.dumps(open_chain))
    Path("chains.json").write_text(json.dumps([open_chain] * 3))
    np.savez(
        "large.npz",
        edge_index=np.array([[0, 1, 2], [1, 2, 3]]),
        x=np.ones((4, 1), dtype=np.float32),
    )
    paths = openapi_document()["paths"]
    ordered = sorted(paths, key=lambda path: path.count("{"))
    routes = {
        f"{method.upper()} {path}": re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path))
        for path in ordered
        for method in paths[path]
    }
    running = Shell(capsys, routes)
    deployment = deployed(webhook_hosts="hooks.example.com")
    running.store = deployment.store
    with deployment.store.database.transaction() as session:
        key = api_keys.create(session, tenant=DEFAULT_TENANT, name="shell", scopes=list(Scope))
    monkeypatch.setenv("D4_API_KEY", key.text)  # from here on, the API needs it
    with serving(deployment, running.on_request) as running.address:
        yield running


def walk_through_webhooks(shell: Shell, webhook: dict[str, Any]) -> None:
    """Nothing is sent here: no worker delivers."""
    assert [item["id"] for item in shell.json("webhooks list")] == [webhook["id"]]
    assert "hooks.example.com" in shell.run(f"webhooks show {webhook['id']}")
    assert shell.json(f"webhooks change {webhook['id']} --disable")["enabled"] is False
    assert shell.json(f"webhooks change {webhook['id']} --enable")["enabled"] is True
    assert shell.json(f"webhooks rotate {webhook['id']}")["secret"] != webhook["secret"]
    [delivery] = shell.json("webhooks deliveries")
    assert shell.json(f"webhooks delivery {delivery['id']}")["attempts"] == 0
    assert shell.json(f"webhooks redeliver {delivery['id']}")["id"] == delivery["id"]
    assert shell.json(f"webhooks delete {webhook['id']}") == {"deleted": webhook["id"]}


def walk_through_metadata(shell: Shell, explanation: str) -> None:
    listed = "explanations list --metadata team=risk --metadata run=7 --state succeeded"
    assert [item["id"] for item in shell.json(listed)] == [explanation]
    assert shell.json("explanations list --created-before 2020-01-01") == []
    assert shell.json(f"metadata {explanation} team= reviewed=true") == {"run": 7, "reviewed": True}
    assert "reviewed" in shell.run(f"metadata {explanation} run=8")
    for resource in ("datasets", "denoisers", "gnns"):
        [first, *_] = shell.json(f"{resource} list")
        assert shell.json(f"metadata {first['id']} team=fraud") == {"team": "fraud"}
        assert [item["id"] for item in shell.json(f"{resource} list --metadata team=fraud")] == [
            first["id"]
        ]
    shell.run(f"metadata {explanation} 'a b=1'", code=4)


def walk_through_evaluations(shell: Shell) -> None:
    asked = (
        "evaluations create --gnn chains --dataset chains --test chains --metric mmd --judge none"
    )
    assert shell.json(f"{asked} --dry-run")["instances"] == 12
    assert "12 instances" in shell.run(f"{asked} --dry-run")
    made = shell.json(f"{asked} --explainer search --explainer greedy --metadata team=risk")
    evaluation = made["id"]
    assert [one["explainer"] for one in made["result"]["explainers"]] == ["search", "greedy"]
    for filters in ("--gnn chains", "--metadata team=risk --state succeeded"):
        assert [item["id"] for item in shell.json(f"evaluations list {filters}")] == [evaluation]
    assert shell.json("evaluations list --metadata team=fraud") == []
    assert shell.json(f"metadata {evaluation} team= run=7") == {"run": 7}
    assert "CF-ACC AUC" in shell.run(f"evaluations show {evaluation}")
    assert shell.json(f"evaluations watch {evaluation}")["result"] == made["result"]
    assert len(shell.json(f"evaluations rows {evaluation} --explainer greedy --limit 50")) == 12
    shell.run(f"evaluations save {evaluation} rows.csv")
    shell.run(f"evaluations save {evaluation} rows.parquet")
    assert len(Path("rows.csv").read_text().splitlines()) == 25
    assert Path("rows.parquet").read_bytes()[:4] == b"PAR1"
    shell.run(f"evaluations save {evaluation} rows.xlsx", code=1)
    report = f"evaluations report {evaluation} --purpose 'to rank chains' --out"
    shell.run(f"{report} report.html")
    assert "to rank chains (Stated by whoever asked for this report" in Path(
        "report.html"
    ).read_text(encoding="utf-8")
    assert shell.json(f"{report} report.csv") == {"saved": "report.csv"}
    assert Path("report.csv").read_text(encoding="utf-8").startswith("figure,meaning,explainer")
    shell.run(f"{report} card.cdx.json")
    assert json.loads(Path("card.cdx.json").read_text(encoding="utf-8"))["bomFormat"] == "CycloneDX"
    shell.run(f"{report} report.docx", code=1)

    compared = f"comparisons create {evaluation} {evaluation} --explainer search"
    asked = f"{compared} --candidate-explainer greedy --metadata team=risk"
    comparison = shell.json(asked)["id"]
    for filters in ("", "--metadata team=risk --state succeeded"):
        assert [item["id"] for item in shell.json(f"comparisons list {filters}")] == [comparison]
    assert shell.json(f"metadata {comparison} team=fraud") == {"team": "fraud"}
    assert shell.json("comparisons list --metadata team=risk") == []
    assert "12 instances" in shell.run(f"comparisons show {comparison}")
    shell.run(compared, code=4)  # nothing differs

    threshold = '[[threshold]]\nfigure = "validity"\nexplainer = "search"\n'
    Path("loose.toml").write_text(f"{threshold}min = 0.0\n")
    Path("strict.toml").write_text(f"{threshold}max = -1.0\n")
    assert shell.json(f"gate loose.toml --evaluation {evaluation}")["passed"] is True
    assert "FAILED  validity of search" in shell.run(
        f"gate strict.toml --evaluation {evaluation}", code=8
    )
    test_result = f"evaluations test-result {evaluation}"
    shell.run(f"evaluations result {evaluation} figures.json")
    assert shell.json(f"{test_result} loose.toml loose.json")["result"] == "PASSED"
    assert "FAILED" in shell.run(f"{test_result} strict.toml strict.json", code=8)
    Path("test-keys.pem").write_text(shell.run("signing-keys"))
    checked = "--result figures.json --key test-keys.pem"
    assert "PASSED, 0 of 1 checks failed; the figures give the same" in shell.run(
        f"verify loose.json {checked}"
    )
    assert "FAILED, 1 of 1 checks failed" in shell.run(f"verify strict.json {checked}")
    Path("figures.json").write_bytes(Path("figures.json").read_bytes() + b" ")
    assert "does not fit" in shell.run(f"verify loose.json {checked}", code=7)

    Path("both.toml").write_text(f'{threshold}min = 0.0\n[comparison]\nnoise = "instances"\n')
    assert "the gate passed" in shell.run(
        f"gate both.toml --evaluation {evaluation} --comparison {comparison}"
    )
    shell.run(f"gate both.toml --evaluation {evaluation}", code=1)
    Path("wrong.toml").write_text("[[threshold]]\nfigure = 3\n")
    shell.run(f"gate wrong.toml --evaluation {evaluation}", code=1)
    assert shell.json(f"comparisons delete {comparison}") == {"deleted": comparison}
    assert shell.json(f"evaluations delete {evaluation}") == {"deleted": evaluation}


def walk_through_receipts(shell: Shell, explanation: str) -> None:
    replayed = shell.json(f"explanations replay {explanation}")
    assert replayed["report"]["outcome"] == "match"
    assert [item["id"] for item in shell.json(f"explanations replays {explanation}")] == [
        replayed["id"]
    ]
    shell.run(f"explanations receipt {explanation} receipt.json")
    shell.run(f"explanations result {explanation} result.json")
    Path("keys.pem").write_text(shell.run("signing-keys"))
    assert "is that of the result" in shell.run(
        "verify receipt.json --key keys.pem --result result.json"
    )
    Path("result.json").write_bytes(Path("result.json").read_bytes() + b" ")
    shell.run("verify receipt.json --key keys.pem --result result.json", code=7)
    assert shell.store is not None
    with shell.store.database.transaction() as session:
        audit_chain.chain(session)  # no dispatcher runs here
    shell.run("audit-log export audit.ndjson")
    assert "is complete" in shell.run("verify audit.ndjson --key keys.pem")


def test_every_command_works_and_asks_the_routes_of_the_page(shell: Shell) -> None:
    names = "--name chains --class-names open,ring"
    gnn = shell.json(f"register chains.py:model --samples chains.py:graphs {names}")
    assert "trained" in shell.errors  # what the user's file prints is not on stdout
    assert (gnn["state"], gnn["spec"]["class_names"]) == ("ready", ["open", "ring"])
    assert [item["id"] for item in shell.json("gnns list --name chains")] == [gnn["id"]]
    assert "deterministic" in shell.run("gnns show chains")
    assert shell.json("gnns change chains --tag stage=beta")["tags"] == {"stage": "beta"}
    assert shell.json("gnns alias chains production 1")["aliases"] == ["production"]
    assert shell.json("gnns unalias chains production") == {"removed": "chains@production"}

    predictions = shell.json("predict chains.json --gnn chains")
    assert [item["class_name"] for item in predictions] == ["open"] * 3
    assert "open" in shell.run("predict chain.json --gnn chains")

    assert shell.json("datasets create chains.json --name more")["graph_count"] == 3
    assert {item["name"] for item in shell.json("datasets list")} == {"chains", "more"}
    assert "0=6 1=6" in shell.run("datasets show chains")
    assert shell.json("upload large.npz --name large")["large"] is True
    assert shell.json("datasets delete more@1") == {"deleted": "more@1"}

    train = "denoisers train --gnn chains --dataset chains --set"
    trained = shell.json(f"{train} steps=2")
    assert trained["state"] == "ready"
    longer = shell.json(f"{train} steps=30 --no-wait")
    assert shell.json(f"jobs watch {longer['job']['id']}")["state"] == "succeeded"
    assert len(shell.json("denoisers list --gnn chains")) == 2
    assert trained["id"] in shell.run(f"denoisers show {trained['id']}")

    notes = "--metadata team=risk --metadata run=7"
    answer = shell.json(
        f"explain chain.json --gnn chains {FAST} --class ring --svg one.svg {notes}"
    )
    [explained] = answer["result"]["answers"]
    assert explained["counterfactuals"][0]["prediction"]["class_name"] == "ring"
    assert Path("one.svg").read_text().startswith("<svg")
    first = shell.json(
        "explain chain.json --gnn chains --denoiser steps=1 --aim minimal --judge none "
        "--wait-for provisional --svg first.svg"
    )
    # The drawing is that of the printed answer, even if a newer one came in between.
    assert shell.paths[-1] == f"/v1/explanations/{first['id']}/answers/{first['result']['stage']}"
    assert "open → ring" in shell.run(f"explain chain.json --gnn chains {FAST}")
    assert shell.json(f"explain chain.json --gnn chains {FAST} --dry-run")["cases"]
    assert len(shell.json("explanations list --gnn chains --kind counterfactual")) == 3
    explanation = answer["id"]
    walk_through_metadata(shell, explanation)
    assert shell.json(f"explanations show {explanation}")["result"] == answer["result"]
    assert shell.json(f"explanations show {explanation} --stage final") == answer["result"]
    assert "open → ring" in shell.run(f"explanations show {explanation} --stage final")
    assert shell.json(f"explanations watch {explanation}")["result"] == answer["result"]
    shell.run(f"explanations save {explanation} two.svg")
    shell.run(f"explanations save {explanation} three.svg --stage final")
    drawings = {Path(name).read_text() for name in ("one.svg", "two.svg", "three.svg")}
    assert len(drawings) == 1
    shell.run(f"explanations save {explanation} edited.json --format pyg --alternative 0")
    edited = json.loads(Path("edited.json").read_text())
    assert len(edited["edge_index"][0]) > 2 * 4  # an edge was added
    near = shell.json(f"explanations nearest {explanation}")
    assert near["nearest"]["prediction"]["class_name"] == "ring"
    assert "of node neighbourhoods" in shell.run(f"explanations nearest {explanation}")

    covering = shell.json("explain-global --gnn chains --from open --count 1 --preset fast")
    assert covering["result"]["source_class"] == 0
    walk_through_evaluations(shell)

    job = answer["job"]["id"]
    assert shell.json(f"jobs show {job}")["state"] == "succeeded"
    assert job in [item["id"] for item in shell.json("jobs list --state succeeded --gnn chains")]
    shell.run(f"jobs retry {job}", code=4)  # it succeeded
    shell.run(f"explanations retry {explanation}", code=4)
    shell.run(f"jobs cancel {job}", code=4)
    shell.run(f"explanations cancel {explanation}", code=4)
    webhook = shell.json("webhooks create https://hooks.example.com/d4 --description board")
    later = shell.run(f"explain chain.json --gnn chains {FAST} --seed 5 --no-wait").strip()
    assert shell.json(f"explanations watch {later}")["state"] == "succeeded"
    walk_through_webhooks(shell, webhook)
    walk_through_receipts(shell, explanation)

    assert {check["name"] for check in json.loads(shell.run("doctor --json", code=1))} >= {"API"}
    link = shell.json(f"links create {later} --hours 2")
    assert link["url"].startswith(f"{shell.address}/v1/explanations/{later}?token=")
    assert [item["id"] for item in shell.json(f"links list {later}")] == [link["id"]]
    assert shell.json(f"links delete {later} {link['id']}") == {"deleted": link["id"]}

    held = shell.json(f"holds put {later} --reason audit")
    assert gnn["id"] in held["protects"]
    assert [hold["resource"] for hold in shell.json("holds list")] == [later]
    shell.run(f"explanations delete {later}", code=4)
    assert shell.json(f"holds end {later}") == {"ended": later}
    assert shell.json(f"explanations delete {later}") == {"deleted": later}
    shell.run(f"explanations show {later}", code=4)
    shell.run(f"jobs delete {job}", code=4)  # it belongs to an explanation
    assert shell.json(f"denoisers delete {longer['id']}") == {"deleted": longer["id"]}
    assert shell.json("retention set --explanations 90")["explanations"] == 90
    assert shell.json("retention show")["explanations"] == 90
    assert shell.json("quotas")["jobs"]["limit"] is None

    shell.run("gnns delete chains@1")
    shell.run("gnns show chains", code=4)

    made = shell.json("keys create reader --scope read --days 1")
    assert made["key"].startswith(made["prefix"])
    replaced = shell.json(f"keys rotate {made['id']} --overlap-hours 1")
    assert shell.json(f"keys show {replaced['id']}")["rotated_from"] == made["id"]
    assert shell.json(f"keys revoke {made['id']}") == {"revoked": made["id"]}
    states = {item["name"]: item["state"] for item in shell.json("keys list")[1:]}
    assert states == {"reader": "revoked", "shell": "active"}
    assert shell.run("keys create writer --scope explain").startswith("d4_")

    asked = documented_routes()
    for command, routes in shell.seen.items():
        assert asked[command] <= routes, command
    local = {command for command, routes in asked.items() if not routes}
    assert local == {"up", "demo", "export", "mlflow", OFFLINE}
    assert set(asked) - set(shell.seen) == local - {OFFLINE}
