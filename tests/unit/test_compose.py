"""docker-compose.yml, its .env.example and the images: what a deployment relies on."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.http.middleware.origins import ANY_HOST, allowed_hosts
from store.jobs import Queue
from store.settings import setting_rows

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
WORKERS = {name: one for name, one in SERVICES.items() if name.startswith("worker-")}
PACKAGES = ("d4explain", "service", "store", "worker", "models", "bench")
IMAGES = sorted((ROOT / "docker").glob("*.Dockerfile"))
# ${NAME:-default}, ${NAME:?message}
VARIABLE = re.compile(r"\$\{(\w+):([-?])([^}]*)\}")


def queues_of(worker: dict[str, Any]) -> set[Queue]:
    option, names = worker["command"]
    assert option == "--queues"
    return {Queue(name) for name in names.split(",")}


def served(*, by_gpu: bool) -> list[Queue]:
    """Each queue as often as workers of that kind serve it."""
    some = [one for one in WORKERS.values() if ("gpu" in one.get("profiles", ())) == by_gpu]
    return sorted(queue for one in some for queue in queues_of(one))


def test_every_queue_has_a_worker_of_its_own() -> None:
    """A registration never waits behind an explanation, nor an explanation behind a training."""
    assert served(by_gpu=False) == sorted(Queue)
    assert served(by_gpu=True) == sorted([Queue.TRAIN, Queue.SAMPLE])
    for name, worker in WORKERS.items():
        assert len(queues_of(worker)) == 1, name


@pytest.mark.parametrize("name", SERVICES)
def test_containers_have_an_init_and_limits(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is True
    assert service["read_only"] is True
    memory = VARIABLE.sub(lambda found: found[3], service["mem_limit"])
    assert re.fullmatch(r"[1-9]\d*[mg]", memory)
    for mount in service.get("tmpfs", ()):
        assert re.search(r":.*\bsize=\d+[mg]\b", mount), mount


def test_postgres_is_asked_over_tcp() -> None:
    """While the image creates a new database, its server listens on the socket only."""
    _, command = SERVICES["postgres"]["healthcheck"]["test"]
    assert re.match(r"pg_isready .*(-h|--host)[ =]127\.0\.0\.1\b", command)


def test_one_process_migrates_before_all_others_start() -> None:
    migrate = SERVICES["migrate"]
    assert migrate["command"] == ["python", "-m", "store", "migrate"]
    assert migrate["restart"] == "no"
    for name in ("api", *WORKERS):
        waited_for = SERVICES[name]["depends_on"]
        assert waited_for["migrate"] == {"condition": "service_completed_successfully"}, name


def test_the_first_key_is_made_before_the_api_starts() -> None:
    """Without a key, the API refuses to listen on an address that other machines reach."""
    first_key = SERVICES["first-key"]
    assert first_key["command"] == ["python", "-m", "store", "keys", "ensure"]
    assert first_key["restart"] == "no"
    waited_for = SERVICES["api"]["depends_on"]
    assert waited_for["first-key"] == {"condition": "service_completed_successfully"}
    holders = [name for name, one in SERVICES.items() if "D4_API_KEY" in one.get("environment", ())]
    assert holders == ["first-key"]


def test_the_example_of_env_names_every_variable() -> None:
    example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    asked = {name: (kind, text) for name, kind, text in VARIABLE.findall(COMPOSE)}
    assert set(re.findall(r"\$\{(\w+)", COMPOSE)) == set(asked)
    assert set(example) == set(asked)
    assert "D4_POSTGRES_PASSWORD" in asked
    for name, (kind, text) in asked.items():
        # Required variables are empty in the example, so that Compose refuses to start.
        assert example[name] == ("" if kind == "?" else text), name


def test_the_api_answers_to_its_own_names_only() -> None:
    environment = SERVICES["api"]["environment"]
    allowed = VARIABLE.sub(lambda found: found[3], environment["D4_ALLOWED_HOSTS"])
    hosts = allowed_hosts(allowed, environment["D4_HOST"])
    assert ANY_HOST not in hosts
    assert "api" in hosts  # the name that other containers use
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["api"]["ports"])


def test_containers_are_given_settings_that_exist() -> None:
    known = {row.env for row in setting_rows()}
    for name in ("migrate", "api", *WORKERS):
        given = {key for key in SERVICES[name]["environment"] if key.startswith("D4_")}
        assert given
        assert given <= known, name


@pytest.mark.parametrize("image", IMAGES, ids=lambda file: file.stem)
def test_a_change_of_the_source_installs_no_dependency_again(image: Path) -> None:
    dependencies, final = re.split(r"\nFROM .*\n", image.read_text().replace("\\\n", " "))[-2:]
    assert not re.search(rf"^COPY .*\b({'|'.join(PACKAGES)})\b", dependencies, re.MULTILINE)
    assert "--requirement requirements.txt" in dependencies
    (install,) = re.findall(r"^RUN .*pip install.*", final, re.MULTILINE)
    assert "--no-deps" in install
    assert final.index("COPY --from=dependencies") < final.index("\nCOPY d4explain ")


@pytest.mark.parametrize("image", IMAGES, ids=lambda file: file.stem)
def test_an_image_runs_from_a_source_tree_with_the_packages_it_needs(image: Path) -> None:
    needed = {"api": {"d4explain", "store", "service"}}
    needed["worker"] = {"d4explain", "store", "models", "worker"}
    copied = re.findall(r"^COPY (\w+) /opt/d4explain/src/\1$", image.read_text(), re.MULTILINE)
    assert set(copied) == needed[image.stem]
    assert "pip install --no-cache-dir --no-deps --editable /opt/d4explain/src" in image.read_text()


def test_torch_is_installed_first_and_in_the_workers_alone() -> None:
    api, worker = (file.read_text() for file in IMAGES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (one for one in project["optional-dependencies"]["worker"] if "torch==" in one)
    assert worker.index(f" {torch}\n") < worker.index("\nCOPY ")
    assert not any(line.startswith("torch") for line in _required(api))
    assert torch in _required(worker)
    assert f"\n{torch}\n" in (ROOT / "constraints.txt").read_text()


def test_extras_that_refer_to_others_are_resolved() -> None:
    worker = _required("python requirements.py worker > requirements.txt")
    assert not any(line.startswith("d4explain") for line in worker)
    assert len(worker) == len(set(worker))
    assert {"httpx>=0.28", "typer>=0.19", "fastapi>=0.162", "torch==2.13.0"} <= set(worker)


def _required(image: str) -> list[str]:
    """What the image's own command prints."""
    (extras,) = re.findall(r"python requirements\.py ([\w ]+) >", image)
    command = [sys.executable, "docker/requirements.py", *extras.split()]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "sqlalchemy" in printed
    return printed.splitlines()
