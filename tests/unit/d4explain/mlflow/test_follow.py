"""Versions are explained once, whatever happens in between; the API is the real one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from d4explain import Client
from d4explain.client.errors import UnreachableError
from d4explain.mlflow.aliases import AliasMirror
from d4explain.mlflow.follow import Choice, Follower, WakeUp
from d4explain.mlflow.standard_set import StandardSet
from d4explain.mlflow.version_record import VersionState
from d4explain.mlflow.version_work import VersionWork
from tests.processes import EdgeCounter
from tests.unit.d4explain.mlflow.memory_registry import Crash, MemoryRegistry
from tests.unit.flows.served_api import serving

QUICK = StandardSet(graphs=2, classes=False, aim="minimal", explainer="search")


def ring(nodes: int) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes}


def gnn_files(folder: str = "d4explain/") -> dict[str, bytes]:
    """What log_gnn writes: a GNN that counts edges, and rings that one more edge flips."""
    counter = EdgeCounter.make()
    reference = {"graphs": [ring(nodes) for nodes in range(4, 10)]}
    return {
        f"{folder}spec.json": json.dumps(counter.spec).encode(),
        f"{folder}weights.safetensors": counter.weights,
        f"{folder}reference.json": json.dumps(reference).encode(),
        f"{folder}heldout.json": json.dumps({"graphs": [ring(5)] * 3}).encode(),
    }


@pytest.fixture(scope="module")
def client(deployed: Callable[..., Any]) -> Iterator[Client]:
    with serving(deployed()) as address, Client(address) as client:
        yield client


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def follower(registry: MemoryRegistry, client: Client, lines: list[str]) -> Callable[..., Follower]:
    """A process that has just started."""

    def start(
        models: tuple[str, ...] = (),
        aliases: tuple[str, ...] = (),
        standard_set: StandardSet = QUICK,
        **options: Any,
    ) -> Follower:
        log = lines.append
        work = VersionWork(registry, client, standard_set, log)
        mirror = AliasMirror(registry, client, log)
        return Follower(
            registry, work, mirror, Choice(models, aliases), log, busy_seconds=0.05, **options
        )

    return start


def explanations(client: Client, gnn: str) -> list[str]:
    return [one.id for one in client.explanations(gnn=gnn)]


def test_a_version_gets_tags_metrics_and_reports(
    registry: MemoryRegistry, client: Client, follower: Callable[..., Follower]
) -> None:
    registry.add("rings", "1", gnn_files())
    follower().until_done(WakeUp())
    tags = registry.tags("rings", "1")
    assert tags["d4explain.state"] == "explained"
    assert tags["d4explain.gnn_version"] == "rings@1"
    assert client.gnn(tags["d4explain.gnn"]).tags["mlflow.run_id"] == "run of rings 1"
    assert tags["d4explain.subjects"] == "2 of 3 held-out graphs"
    [explanation] = json.loads(tags["d4explain.explanations"]).values()
    assert tags["d4explain.url"] == f"{client.url}/explanations/{explanation}"
    result = client.explanation(explanation).result
    assert result is not None
    logged = {key: value for _, key, value, _, step in registry.metrics if step == 1}
    assert logged["d4explain/validity"] == result.summary.flip_rate == 1
    assert logged["d4explain/edits"] == result.summary.mean_edits
    assert logged["d4explain/mmd"] == result.mmd.sum
    reports = {path for _, path in registry.files if path.endswith(".html")}
    folder = tags["d4explain.reports"]
    assert reports == {f"{folder}/counterfactual/graph-{number}.html" for number in range(2)}
    report = registry.files["run of rings 1", f"{folder}/counterfactual/graph-0.html"]
    assert explanation in report.decode()


def test_a_version_is_explained_only_once(
    registry: MemoryRegistry, client: Client, follower: Callable[..., Follower]
) -> None:
    registry.add("once", "1", gnn_files())
    follower().until_done(WakeUp())
    before, writes = explanations(client, "once"), registry.writes
    second = follower()
    second.until_done(WakeUp())
    assert explanations(client, "once") == before
    assert registry.writes == writes
    assert second.states == {}


@pytest.mark.parametrize("crash_after", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_crash_at_any_write_changes_nothing_in_the_end(
    registry: MemoryRegistry, client: Client, follower: Callable[..., Follower], crash_after: bool
) -> None:
    """One GNN, one reference set, one explanation and the same tags and metrics as without it."""
    registry.add("whole", "1", gnn_files())
    follower().until_done(WakeUp())
    count = registry.writes
    assert count > 10
    for crash_at in range(1, count + 1):
        name = f"crash {crash_after} {crash_at}"
        crashing = MemoryRegistry(crash_at=crash_at, crash_after=crash_after)
        crashing.add(name, "1", gnn_files())
        broken = _follower(crashing, client)
        with pytest.raises(Crash):
            broken.until_done(WakeUp())
        crashing.crash_at = None
        _follower(crashing, client).until_done(WakeUp())
        tags = crashing.tags(name, "1")
        assert tags["d4explain.state"] == "explained", crash_at
        assert tags.keys() == registry.tags("whole", "1").keys()
        assert len(explanations(client, name)) == 1, crash_at
        assert len(list(client.gnns(name))) == len(list(client.datasets(name))) == 1, crash_at
        assert len(crashing.metrics) == len(registry.metrics), crash_at
        assert len(crashing.files) == len(registry.files), crash_at


def _follower(registry: MemoryRegistry, client: Client) -> Follower:
    log: Callable[[str], None] = [].append
    work = VersionWork(registry, client, QUICK, log)
    return Follower(
        registry, work, AliasMirror(registry, client, log), Choice(), log, busy_seconds=0.05
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"d4explain/weights.safetensors": b"no weights"}, "Not a safetensors file"),
        ({"d4explain/spec.json": b"{"}, "d4explain/spec.json is not JSON"),
        ({"d4explain/spec.json": b"[]"}, "d4explain/spec.json is not a JSON object"),
        ({"d4explain/reference.json": b"{}"}, 'd4explain/reference.json is not {"graphs": […]}'),
        ({"d4explain/reference.json": b'{"graphs": []}'}, "graphs"),
        ({"d4explain/reference.json": None}, "neither d4explain/reference.json nor the tag"),
        ({"d4explain/heldout.json": b'{"graphs": [{"edge_index": 7}]}'}, "edge_index"),
        ({"d4explain/heldout.json": b'{"graphs": []}'}, "there are no graphs in the held-out"),
    ],
)
def test_a_failure_is_tagged_and_stops_no_other_version(
    registry: MemoryRegistry,
    follower: Callable[..., Follower],
    request: pytest.FixtureRequest,
    change: dict[str, bytes | None],
    error: str,
) -> None:
    name = f"broken {abs(hash(request.node.name))}"
    files = {**gnn_files(), **change}
    registry.add(name, "1", {path: data for path, data in files.items() if data is not None})
    registry.add(name, "2", gnn_files())
    running = follower()
    running.until_done(WakeUp())
    tags = registry.tags(name, "1")
    assert tags["d4explain.state"] == "failed"
    assert error in tags["d4explain.error"]
    assert registry.tags(name, "2")["d4explain.state"] == "explained"
    assert running.states == {
        (name, "1"): VersionState.FAILED,
        (name, "2"): VersionState.EXPLAINED,
    }


def test_a_repaired_version_is_explained_when_its_state_is_removed(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("repaired", "1", {**gnn_files(), "d4explain/heldout.json": b"{}"})
    follower().until_done(WakeUp())
    assert registry.tags("repaired", "1")["d4explain.state"] == "failed"
    registry.files |= {("run of repaired 1", path): data for path, data in gnn_files().items()}
    follower().until_done(WakeUp())
    assert registry.tags("repaired", "1")["d4explain.state"] == "failed"
    [version] = registry.versions(["repaired"])
    registry.tag(version, {"d4explain.state": None})
    follower().until_done(WakeUp())
    tags = registry.tags("repaired", "1")
    assert tags["d4explain.state"] == "explained"
    assert tags["d4explain.attempt"] == "2"
    assert "d4explain.error" not in tags


def test_versions_without_a_gnn_are_left_alone(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("sklearn", "1", {"model/model.pkl": b"pickle"})
    running = follower()
    running.until_done(WakeUp())
    assert registry.tags("sklearn", "1") == {}
    assert running.states == {}


def test_a_gnn_that_comes_later_is_found_when_a_webhook_or_a_new_version_says_so(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("late", "1", {})
    running = follower()  # the version is from 1970
    assert running.look(["late"]) == set()
    registry.files |= {("run of late 1", path): data for path, data in gnn_files().items()}
    assert running.look(["late"]) == set()
    assert running.look(["late"], again={"late"}) == {"late"}


def test_a_new_version_without_a_gnn_is_looked_at_again(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("soon", "1", {})
    running = follower(now=lambda: 60.0)  # a minute after the version was made
    assert running.look(["soon"]) == set()
    registry.files |= {("run of soon 1", path): data for path, data in gnn_files().items()}
    assert running.look(["soon"]) == {"soon"}


def test_files_at_the_root_and_in_a_named_folder_are_found(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("root", "1", gnn_files(""))
    registry.add("named", "1", gnn_files("a/b/"), tags={"d4explain.folder": "a/b"})
    follower().until_done(WakeUp())
    assert registry.tags("root", "1")["d4explain.state"] == "explained"
    assert registry.tags("named", "1")["d4explain.state"] == "explained"


def test_the_reference_set_may_be_a_registered_one(
    registry: MemoryRegistry, client: Client, follower: Callable[..., Follower]
) -> None:
    dataset = client.create_dataset("shared", [ring(nodes) for nodes in range(4, 9)])
    files = {
        path: data
        for path, data in gnn_files().items()
        if not path.endswith(("reference.json", "heldout.json"))
    }
    registry.add("uses shared", "1", files, tags={"d4explain.dataset": "shared"})
    follower().until_done(WakeUp())
    tags = registry.tags("uses shared", "1")
    assert tags["d4explain.dataset_id"] == dataset.id
    assert tags["d4explain.subjects"] == "2 of 5 reference graphs"
    assert tags["d4explain.state"] == "explained"


def test_another_name_is_given_by_a_tag(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    """The model's name is refused by the API: it looks like an id."""
    registry.add("gnn_rings", "1", gnn_files())
    registry.add("gnn_rings", "2", gnn_files(), tags={"d4explain.name": "renamed"})
    follower().until_done(WakeUp())
    assert "should not begin with 'gnn_'" in registry.tags("gnn_rings", "1")["d4explain.error"]
    assert registry.tags("gnn_rings", "2")["d4explain.gnn_version"] == "renamed@1"


def test_only_chosen_models_and_aliases_are_explained(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    registry.add("chosen", "1", gnn_files())
    registry.add("chosen", "2", gnn_files(), aliases=["candidate"])
    registry.add("other", "1", gnn_files(), aliases=["candidate"])
    running = follower(models=("chosen",), aliases=("candidate",))
    running.until_done(WakeUp())
    assert running.states == {("chosen", "2"): VersionState.EXPLAINED}


def test_aliases_move_with_the_versions(
    registry: MemoryRegistry, client: Client, follower: Callable[..., Follower]
) -> None:
    registry.add("moving", "1", gnn_files(), aliases=["production"])
    registry.add("moving", "2", gnn_files())
    follower().until_done(WakeUp())
    assert client.gnn("moving@production").version == 1
    client.set_alias("moving", "mine", 1)
    registry.give_alias("moving", "2", "production")
    follower().until_done(WakeUp())
    assert client.gnn("moving@production").version == 2
    registry.give_alias("moving", "0", "production")  # to no version
    follower().until_done(WakeUp())
    assert client.gnn("moving@2").aliases == []
    assert client.gnn("moving@1").aliases == ["mine"]  # nobody else's alias is removed


def test_a_service_that_does_not_answer_changes_no_tag(
    registry: MemoryRegistry, lines: list[str]
) -> None:
    registry.add("unreachable", "1", gnn_files())
    with Client("http://127.0.0.1:9", attempts=1) as nowhere:
        work = VersionWork(registry, nowhere, QUICK, lines.append)
        mirror = AliasMirror(registry, nowhere, lines.append)
        running = Follower(registry, work, mirror, Choice(), lines.append)
        with pytest.raises(UnreachableError):
            running.until_done(WakeUp())
    assert registry.tags("unreachable", "1")["d4explain.state"] == "running"
    assert "d4explain.error" not in registry.tags("unreachable", "1")


def test_a_webhook_wakes_the_loop(
    registry: MemoryRegistry, follower: Callable[..., Follower]
) -> None:
    """The next poll would come in an hour."""
    running, wake_up = follower(models=("woken",)), WakeUp()
    registry.add("woken", "1", {})
    thread = threading.Thread(target=running.forever, args=(wake_up, 3600.0), daemon=True)
    thread.start()
    time.sleep(0.3)  # the first poll
    registry.files |= {("run of woken 1", path): data for path, data in gnn_files().items()}
    wake_up.name("a model that nobody asked for")
    wake_up.name("woken")
    deadline = time.monotonic() + 30
    while registry.tags("woken", "1").get("d4explain.state") != "explained":
        assert time.monotonic() < deadline, registry.tags("woken", "1")
        time.sleep(0.05)
