"""Runs an embedded stack in its own process for the duration of a `with` block."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from d4explain.client.errors import UnreachableError
from d4explain.errors import CommandError
from d4explain.stack.ports import LOOPBACK, free_port
from d4explain.stack.processes import Child, Command
from d4explain.stack.readiness import READY_SECONDS, readiness
from d4explain.stack.source_tree import python_command, python_environment

STOP_SECONDS = 20.0
# All data of this stack is in its data folder, whatever the shell sets.
NOT_INHERITED = ("D4_DATABASE_URL", "D4_ARTIFACTS")


@contextmanager
def embedded_stack(data_dir: Path, log: Path) -> Iterator[str]:
    """Yield the address of a ready stack; it stops with the block or with this process."""
    port = free_port()
    environment = {name: text for name, text in os.environ.items() if name not in NOT_INHERITED}
    environment |= {"D4_DATA_DIR": str(data_dir), "D4_HOST": LOOPBACK, "D4_PORT": str(port)}
    log.unlink(missing_ok=True)
    up = python_command("-m", "d4explain", "up")
    stack = Child(Command("stack", up, log, python_environment(environment)))
    stack.start()
    try:
        _wait_until_ready(stack, port)
        yield f"http://{LOOPBACK}:{port}"
    except UnreachableError as error:
        if stack.check() is None:
            raise
        raise _failure(stack, "ended unexpectedly") from error
    finally:
        stack.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while stack.pid is not None and stack.check() is None:
            if time.monotonic() > deadline:
                stack.kill()
            time.sleep(0.05)


def _wait_until_ready(stack: Child, port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not readiness(LOOPBACK, port).ready:
        if stack.check() is not None or time.monotonic() > deadline:
            raise _failure(stack, "did not start")
        time.sleep(0.05)


def _failure(stack: Child, problem: str) -> CommandError:
    last = "\n".join(f"  {line}" for line in stack.last_lines())
    return CommandError(f"the embedded stack {problem}; end of its log:\n{last}")
