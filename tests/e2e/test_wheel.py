"""The built wheel without the source tree, in a folder with packages named like the server's."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from safetensors.numpy import load

from d4explain.contracts.gnn_files.weights import check_weights
from d4explain.contracts.gnn_spec import parse_spec

ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = ("service", "worker", "store", "models", "bench")
MODEL = """
from torch import nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import MeanAggregation

from models.sizes import CLASSES

def model():
    return nn.Sequential(GCNConv(4, 8), nn.ReLU(), MeanAggregation(), nn.Linear(8, CLASSES))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--wheel-dir", folder]
    done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=240)
    if "No matching distribution found for hatchling" in done.stdout + done.stderr:
        pytest.skip("the build backend hatchling cannot be downloaded")
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and its base dependencies."""
    return environment(tmp_path_factory.mktemp("base"), wheel, extras=())


@pytest.fixture(scope="module")
def with_export(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the extra `export`."""
    return environment(tmp_path_factory.mktemp("export"), wheel, extras=("export",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The current folder of a user, with packages named like the server's."""
    for name in SERVER_PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of a user')")
    (tmp_path / "models" / "__init__.py").write_text("from models.gnn import model")
    (tmp_path / "models" / "gnn.py").write_text(MODEL)
    (tmp_path / "models" / "sizes.py").write_text("CLASSES = 3")
    return tmp_path


def environment(folder: Path, wheel: Path, extras: Iterable[str]) -> Path:
    """The scripts folder of a virtual environment with the wheel and its requirements only.

    Its dependencies are links to the packages of this environment, so nothing is downloaded.
    """
    venv.create(folder, symlinks=True)
    scripts = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for dependency in dependencies(site_packages, set(extras)):
        for file in dependency.files or ():
            top = file.parts[0]
            link = site_packages / top
            if top not in ("..", "__pycache__") and not link.exists():
                link.symlink_to(Path(str(dependency.locate_file(top))))
    return scripts


def dependencies(site_packages: Path, extras: set[str]) -> Iterable[Distribution]:
    (installed,) = Distribution.discover(name="d4explain", path=[str(site_packages)])
    found: dict[tuple[str, frozenset[str]], Distribution] = {}
    pending = [(installed, frozenset(extras))]
    while pending:
        parent, wanted = pending.pop()
        for line in parent.requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            key = canonicalize_name(requirement.name), frozenset(requirement.extras)
            if key in found:
                continue
            try:
                found[key] = distribution(requirement.name)
            except PackageNotFoundError:
                # A CPU build of torch may name CUDA packages that are not installed.
                assert parent is not installed, f"{requirement.name} is not installed"
                continue
            pending.append((found[key], key[1]))
    return found.values()


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command),
        cwd=cwd,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(cwd),
            "OMP_NUM_THREADS": "1",
            "D4_URL": "http://127.0.0.1:9",  # no API answers there
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_wheel_contains_only_d4explain(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top_level = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in top_level if not top.endswith(".dist-info")} == {"d4explain"}


def test_the_server_packages_are_not_importable(base: Path, tmp_path: Path) -> None:
    for name in SERVER_PACKAGES:
        done = run(base / "python", "-c", f"import {name}", cwd=tmp_path)
        assert f"No module named '{name}'" in done.stderr


def test_the_client_can_be_imported(base: Path, folder: Path) -> None:
    code = "from d4explain import Client; import d4explain; print(d4explain.__file__)"
    done = run(base / "python", "-c", code, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(base.parent)


ASKING = """
import asyncio, sys
from d4explain import AsyncClient, Client, UnreachableError

client = Client(attempts=1)
try:
    client.explain("toxicity", ["CCO", {"edge_index": [[0], [1]]}])
except UnreachableError as error:
    print(error.url)

async def ask():
    async with AsyncClient(attempts=1) as client:
        await client.gnn("toxicity")

try:
    asyncio.run(ask())
except UnreachableError as error:
    print(error.url)
try:
    client.register(object(), ["CCO"], name="toxicity")
except Exception as error:
    print(error.hint)
print(sorted({"torch", "torch_geometric", "networkx", "rich", "typer"} & set(sys.modules)))
"""


def test_asking_needs_neither_torch_nor_networkx(base: Path, folder: Path) -> None:
    done = run(base / "python", "-c", ASKING, cwd=folder)
    assert done.returncode == 0, done.stderr
    address = "http://127.0.0.1:9"
    assert done.stdout.splitlines() == [address, address, "pip install 'd4explain[export]'", "[]"]


def test_the_command_without_its_extra_says_what_to_install(base: Path, folder: Path) -> None:
    for command in ((base / "d4explain",), (base / "python", "-m", "d4explain")):
        done = run(*command, "--help", cwd=folder)
        assert done.returncode == 1
        assert "pip install 'd4explain[cli]'" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_command_runs(with_export: Path, folder: Path) -> None:
    for command in ((with_export / "d4explain",), (with_export / "python", "-m", "d4explain")):
        done = run(*command, "--help", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "export" in done.stdout
    done = run(with_export / "d4explain", "doctor", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not in this installation" in done.stdout


@pytest.mark.parametrize("command", ["up", "demo"])
def test_the_server_is_not_imported_from_the_current_folder(
    with_export: Path, folder: Path, command: str
) -> None:
    done = run(with_export / "python", "-m", "d4explain", command, cwd=folder)
    assert done.returncode == 1
    assert "has no server" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["models:model", "models.gnn:model"])
def test_export_imports_the_package_models_of_the_user(
    with_export: Path, folder: Path, name: str
) -> None:
    done = run(with_export / "d4explain", "export", name, "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads((folder / "out" / "spec.json").read_text())
    kinds = [layer["type"] for layer in document["layers"]]
    assert kinds == ["gcn", "activation", "pool", "linear"]
    assert (document["features"], document["classes"]) == (4, 3)
    weights = (folder / "out" / "weights.safetensors").read_bytes()
    check_weights(weights, parse_spec(document))
    assert load(weights)["layers.3.linear.weight"].shape == (3, 8)
