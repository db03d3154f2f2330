"""`d4explain mlflow` with a real MLflow server from PyPI, its client and its webhooks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from d4explain import Client
from d4explain.stack.ports import free_port
from tests.processes import EdgeCounter
from tests.unit.flows.served_api import serving

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv-mlflow" / "bin"
PAGE = ROOT / "docs" / "mlflow.md"
SECRET = "the secret of the webhook"
QUICK = ("--explainer", "search", "--aim", "minimal", "--graphs", "2", "--no-classes")

pytestmark = [
    pytest.mark.skipif(
        not (BIN / "mlflow").exists(), reason="no MLflow server (`make install-mlflow`)"
    ),
    pytest.mark.timeout(600),
]


class MlflowServer:
    def __init__(self, url: str) -> None:
        self.url = url

    def call(self, method: str, path: str, **options: Any) -> Any:
        answer = httpx.request(method, f"{self.url}/api/2.0/mlflow/{path}", timeout=60, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        return self.call("POST", path, json=body)

    def add_version(
        self, name: str, files: dict[str, bytes], alias: str | None = None
    ) -> tuple[str, str]:
        """The number of the new version and the id of its run, which has these artifacts."""
        run = self.post("runs/create", experiment_id="0", start_time=1)["run"]["info"]["run_id"]
        for path, content in files.items():
            answer = httpx.put(
                f"{self.url}/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/{path}",
                content=content,
            )
            assert answer.is_success, answer.text
        httpx.post(f"{self.url}/api/2.0/mlflow/registered-models/create", json={"name": name})
        made = self.post(
            "model-versions/create", name=name, source=f"runs:/{run}/d4explain", run_id=run
        )
        version = str(made["model_version"]["version"])
        if alias is not None:
            self.post("registered-models/alias", name=name, alias=alias, version=version)
        return version, run

    def tags(self, name: str, version: str) -> dict[str, str]:
        query = {"name": name, "version": version}
        found = self.call("GET", "model-versions/get", params=query)["model_version"]
        return {tag["key"]: tag["value"] for tag in found.get("tags", [])}

    def metrics(self, run: str) -> dict[str, float]:
        found = self.call("GET", "runs/get", params={"run_id": run})["run"]["data"]
        return {one["key"]: one["value"] for one in found.get("metrics", [])}

    def artifacts(self, run: str, folder: str) -> list[str]:
        query = {"run_id": run, "path": folder}
        found = self.call("GET", "artifacts/list", params=query).get("files", [])
        return sorted(one["path"] for one in found)

    def read_artifact(self, run: str, path: str) -> str:
        url = f"{self.url}/get-artifact"
        return httpx.get(url, params={"run_uuid": run, "path": path}).raise_for_status().text

    def wait_for_state(self, name: str, version: str, state: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while (tags := self.tags(name, version)).get("d4explain.state") != state:
            assert time.monotonic() < deadline, tags
            time.sleep(0.2)


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("mlflow")
    server = MlflowServer(f"http://127.0.0.1:{free_port()}")
    options = {
        "--backend-store-uri": f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination": str(folder / "artifacts"),
        "--host": "127.0.0.1",
        "--port": server.url.rpartition(":")[2],
        "--workers": "1",
    }
    # Its sender of webhooks reaches loopback only if it is told to.
    environment = _environment() | {
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_WEBHOOK_CACHE_TTL": "0",
    }
    command = [BIN / "mlflow", "server", *[part for pair in options.items() for part in pair]]
    with _process(command, environment, folder / "server.log") as process:
        deadline = time.monotonic() + 240
        while True:
            try:
                httpx.get(f"{server.url}/health", timeout=2).raise_for_status()
                break
            except httpx.HTTPError:
                log = folder / "server.log"
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.3)
        yield server


@pytest.fixture(scope="module")
def address(deployed: Callable[..., Any]) -> Iterator[str]:
    with serving(deployed()) as address:
        yield address


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("D4_", "MLFLOW_"))}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


@contextmanager
def _process(
    command: list[Any], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its children in a group of its own."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def command_environment(server: MlflowServer, address: str) -> dict[str, str]:
    return _environment() | {"MLFLOW_TRACKING_URI": server.url, "D4_URL": address}


def d4explain(
    server: MlflowServer, address: str, *options: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [BIN / "python", "-m", "d4explain", "mlflow", *options],
        env=command_environment(server, address),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def ring(nodes: int) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes}


def gnn_files() -> dict[str, bytes]:
    counter = EdgeCounter.make()
    return {
        "d4explain/spec.json": json.dumps(counter.spec).encode(),
        "d4explain/weights.safetensors": counter.weights,
        "d4explain/reference.json": json.dumps(
            {"graphs": [ring(nodes) for nodes in range(4, 10)]}
        ).encode(),
        "d4explain/heldout.json": json.dumps({"graphs": [ring(5)] * 2}).encode(),
    }


def test_the_walk_through_of_the_page_runs(
    mlflow_server: MlflowServer, address: str, tmp_path: Path
) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Walk-through")[2]
    text = text.partition("## What is looked for")[0]
    training, reading = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [shell] = re.findall(r"```sh\nd4explain mlflow (.*?)\n```", text)
    # torch and PyG are those of this environment, behind the packages of MLflow.
    packages = sysconfig.get_path("purelib")
    script = tmp_path / "train.py"
    script.write_text(f"import site\nsite.addsitedir({packages!r})\n{training}")
    environment = command_environment(mlflow_server, address)

    def run_python(file: Path) -> str:
        done = subprocess.run(
            [BIN / "python", file], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run_python(script)
    log = d4explain(mlflow_server, address, *shell.split()).stderr
    assert "chains v1: explained, 0 meaningful, 0 brittle, 4 unjudged" in log
    reader = tmp_path / "read.py"
    reader.write_text(f"import mlflow\nclient = mlflow.MlflowClient()\n{reading}")
    shown = run_python(reader).splitlines()
    with Client(address) as client:
        gnn = client.gnn("chains@production")
        [dataset] = client.datasets("chains")
        explanations = list(client.explanations(gnn=gnn))
    assert shown[0] == "explained 0 meaningful, 0 brittle, 4 unjudged"
    assert shown[1].startswith("chains@1 http")
    assert shown[2].split() == ["1.0", "1.0"]
    reports = "d4explain/chains-v1"
    assert shown[3:] == [
        f"{reports}/{name}"
        for name in (
            "class_open.html",
            "class_open.receipt.json",
            "class_ring.html",
            "class_ring.receipt.json",
            "counterfactual",
            "counterfactual.receipt.json",
        )
    ]
    assert gnn.spec["class_names"] == ["open", "ring"]
    assert dataset.graph_count == 12
    assert sorted(one.kind for one in explanations) == ["class", "class", "counterfactual"]
    # Nothing happens twice.
    again = d4explain(mlflow_server, address, *shell.split(), "--json")
    assert json.loads(again.stdout) == []
    with Client(address) as client:
        assert len(list(client.explanations(gnn=gnn))) == len(explanations)


def test_a_broken_version_is_tagged_and_the_next_one_is_explained(
    mlflow_server: MlflowServer, address: str
) -> None:
    broken = {**gnn_files(), "d4explain/weights.safetensors": b"no weights"}
    mlflow_server.add_version("rings", broken)
    mlflow_server.add_version("rings", gnn_files(), alias="champion")
    mlflow_server.add_version("rings", {"model/model.pkl": b"pickle"})
    done = d4explain(mlflow_server, address, "--once", "--model", "rings", "--json", *QUICK, code=5)
    assert json.loads(done.stdout) == [
        {"model": "rings", "version": "1", "state": "failed"},
        {"model": "rings", "version": "2", "state": "explained"},
    ]
    assert "Not a safetensors file" in mlflow_server.tags("rings", "1")["d4explain.error"]
    assert mlflow_server.tags("rings", "3") == {}
    tags = mlflow_server.tags("rings", "2")
    query = {"name": "rings", "version": "2"}
    run = mlflow_server.call("GET", "model-versions/get", params=query)["model_version"]["run_id"]
    assert mlflow_server.metrics(run)["d4explain/validity"] == 1
    folder = f"{tags['d4explain.reports']}/counterfactual"
    assert mlflow_server.artifacts(run, folder) == [f"{folder}/graph-{n}.html" for n in range(2)]
    report = mlflow_server.read_artifact(run, f"{folder}/graph-0.html")
    [explanation] = json.loads(tags["d4explain.explanations"]).values()
    assert explanation in report
    assert "<script" not in report
    with Client(address) as client:
        assert client.gnn("rings@champion").id == tags["d4explain.gnn"]


def test_a_killed_process_is_continued(
    mlflow_server: MlflowServer, address: str, tmp_path: Path
) -> None:
    """It dies after it has asked; the next one asks nothing again."""
    mlflow_server.add_version("killed", gnn_files())
    options = ["--model", "killed", *QUICK]
    command = [BIN / "python", "-m", "d4explain", "mlflow", *options]
    environment = command_environment(mlflow_server, address)
    with _process(command, environment, tmp_path / "log") as process:
        mlflow_server.wait_for_state("killed", "1", "running")
        os.killpg(process.pid, signal.SIGKILL)
    d4explain(mlflow_server, address, "--once", *options)
    tags = mlflow_server.tags("killed", "1")
    assert tags["d4explain.state"] == "explained"
    assert tags["d4explain.attempt"] == "1"
    with Client(address) as client:
        assert len(list(client.gnns("killed"))) == len(list(client.datasets("killed"))) == 1
        [_] = client.explanations(gnn=tags["d4explain.gnn"])


def test_the_webhooks_of_mlflow_are_received(
    mlflow_server: MlflowServer, address: str, tmp_path: Path
) -> None:
    """MLflow's own sender; the next poll would come in an hour."""
    listen = f"127.0.0.1:{free_port()}"
    options = ["--model", "hooked", "--listen", listen, "--interval", "3600", *QUICK]
    command = [BIN / "python", "-m", "d4explain", "mlflow", *options]
    environment = command_environment(mlflow_server, address)
    environment["D4_MLFLOW_WEBHOOK_SECRET"] = SECRET
    log = tmp_path / "log"
    mlflow_server.post("registered-models/create", name="hooked")
    events = [
        {"entity": "MODEL_VERSION", "action": "CREATED"},
        {"entity": "MODEL_VERSION_ALIAS", "action": "CREATED"},
    ]
    body = {"name": "d4explain", "url": f"http://{listen}/mlflow-webhook", "events": events}
    with _process(command, environment, log):
        deadline = time.monotonic() + 60
        while "looking at" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        time.sleep(1.0)  # the first poll, which finds no version
        made = mlflow_server.post("webhooks", **body, secret=SECRET)["webhook"]
        tested = mlflow_server.post(f"webhooks/{made['webhook_id']}/test")["result"]
        assert (tested["success"], tested["response_status"]) == (True, 204), log.read_text()
        wrong = mlflow_server.post("webhooks", **{**body, "name": "wrong"}, secret="another")
        refused = mlflow_server.post(f"webhooks/{wrong['webhook']['webhook_id']}/test")["result"]
        assert refused["response_status"] == 401
        mlflow_server.call("DELETE", f"webhooks/{wrong['webhook']['webhook_id']}")
        version, _ = mlflow_server.add_version("hooked", gnn_files(), alias="production")
        mlflow_server.wait_for_state("hooked", version, "explained")
    text = log.read_text()
    assert "webhook model_version.created: hooked" in text
    assert "webhook refused: wrong signature" in text
    with Client(address) as client:
        assert (
            client.gnn("hooked@production").id
            == mlflow_server.tags("hooked", version)["d4explain.gnn"]
        )


def test_the_endpoint_needs_a_secret() -> None:
    nowhere = MlflowServer("http://127.0.0.1:9")
    done = d4explain(nowhere, nowhere.url, "--listen", "127.0.0.1:0", code=1)
    assert "--listen needs D4_MLFLOW_WEBHOOK_SECRET" in done.stderr


def test_a_server_that_does_not_answer_is_named() -> None:
    nowhere = MlflowServer("http://127.0.0.1:9")
    done = d4explain(nowhere, nowhere.url, "--once", code=1)
    assert "127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_mlflow_skinny_is_used(tmp_path: Path) -> None:
    """All modules of MLflow that the command imports belong to mlflow-skinny."""
    script = tmp_path / "modules.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "from importlib.metadata import distribution\n"
        "from d4explain.mlflow.registry import MlflowRegistry\n"
        "registry = MlflowRegistry('http://127.0.0.1:9')\n"
        "record = {str(pathlib.Path(f.locate()).resolve())\n"
        "          for f in distribution('mlflow-skinny').files}\n"
        "used = {m.__file__ for n, m in list(sys.modules.items())\n"
        "        if n.split('.')[0] == 'mlflow' and getattr(m, '__file__', None)}\n"
        "print(json.dumps([len(used), sorted(used - record)]))\n"
    )
    done = subprocess.run(
        [BIN / "python", script], env=_environment(), capture_output=True, text=True, check=True
    )
    count, others = json.loads(done.stdout)
    assert count > 10
    assert others == []
