"""An embedded stack for tests of examples."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from d4explain.stack.ports import free_port


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a running `d4explain up`."""
    port = free_port()
    environment = os.environ | {"D4_DATA_DIR": str(tmp_path / "data"), "D4_PORT": str(port)}
    stack = subprocess.Popen([sys.executable, "-m", "d4explain", "up"], env=environment)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", stack)
        yield f"http://127.0.0.1:{port}"
    finally:
        stack.terminate()
        stack.wait(timeout=30)


def wait_until_ready(address: str, stack: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert stack.poll() is None, f"the stack ended with {stack.returncode}"
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the stack was not ready within 60 s")
