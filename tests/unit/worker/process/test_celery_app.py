from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from store.jobs import workers
from store.settings import Settings
from store.store import Store
from worker.__main__ import main
from worker.process.celery_app import NoBrokerError, create_app

ROOT = Path(__file__).parents[4]


def run_worker(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}
    return subprocess.run(
        [sys.executable, "-m", "worker", *arguments],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_parent_process_does_not_import_torch() -> None:
    script = (
        "import sys, worker.__main__, worker.process.tasks; "
        "print([name for name in ('torch', 'torch_geometric', 'models') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_missing_broker_url_is_named() -> None:
    ended = run_worker("--queues", "train")
    assert ended.returncode == 2
    assert "D4_REDIS_URL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unknown_queue_is_refused() -> None:
    ended = run_worker("--queues", "trian")
    assert ended.returncode == 2
    assert "trian" in ended.stderr


def test_an_invalid_setting_is_refused() -> None:
    ended = run_worker(D4_REDIS_URL="redis://127.0.0.1:1/0", D4_LEASE_SECONDS="soon")
    assert ended.returncode == 2
    assert "D4_LEASE_SECONDS" in ended.stderr


def test_one_child_by_spawn_and_early_acknowledgement() -> None:
    conf = create_app(Settings(redis_url="redis://127.0.0.1:1/0")).conf
    assert (conf.worker_pool, conf.worker_pool_start_method) == ("prefork", "spawn")
    assert conf.worker_concurrency == 1
    assert conf.worker_disable_prefetch is True
    assert conf.task_acks_late is False
    assert conf.task_ignore_result is True
    assert conf.accept_content == ["json"]
    assert conf.worker_max_memory_per_child > 0
    with pytest.raises(NoBrokerError):
        create_app(Settings(redis_url=None))


def test_tasks_are_not_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package_of_a_user.py").touch()
    monkeypatch.chdir(tmp_path)
    loader = create_app(Settings(redis_url="redis://127.0.0.1:1/0")).loader
    with pytest.raises(ModuleNotFoundError):
        loader.import_task_module("package_of_a_user")
    assert loader.import_task_module("worker.process.tasks").__name__ == "worker.process.tasks"


def test_check_reports_whether_a_worker_on_this_host_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("D4_DATA_DIR", str(tmp_path))
    with Store.open(Settings.from_environment()) as store:
        assert main(["--check"]) == 1
        with store.database.transaction() as session:
            name = f"{socket.gethostname()}-abc@d4explain"
            workers.beat(session, name=name, queues=["light"], device="cpu", pid=1)
            workers.beat(session, name="elsewhere-abc", queues=["light"], device="cpu", pid=2)
        assert main(["--check"]) == 0
    assert "1 of 2 live workers" in capsys.readouterr().out
