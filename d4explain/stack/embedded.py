"""An embedded stack for the length of a `with` block, in a process of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from d4explain.client.errors import UnreachableError
from d4explain.errors import CommandError
from d4explain.stack.ports import LOOPBACK, free_port
from d4explain.stack.processes import Child, Command
from d4explain.stack.readiness import readiness
from d4explain.stack.supervisor import READY_SECONDS

STOP_SECONDS = 20.0
# A throw-away stack has its own of these, whatever the person's shell says.
OWN = ("D4_DATABASE_URL", "D4_ARTIFACTS")


@contextmanager
def embedded_stack(data_dir: Path, log: Path) -> Iterator[str]:
    """The address of a stack that is ready; it ends with the block, and with this process."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    environment |= {"D4_DATA_DIR": str(data_dir), "D4_HOST": LOOPBACK, "D4_PORT": str(port)}
    log.unlink(missing_ok=True)
    stack = Child(Command("stack", (sys.executable, "-m", "d4explain", "up"), log, environment))
    stack.start()
    try:
        _wait_until_ready(stack, port)
        yield f"http://{LOOPBACK}:{port}"
    except UnreachableError as error:
        if stack.check() is None:
            raise
        raise _ended(stack, "ended before its time") from error
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
            raise _ended(stack, "did not start")
        time.sleep(0.05)


def _ended(stack: Child, words: str) -> CommandError:
    last = "\n".join(f"  {line}" for line in stack.last_lines())
    return CommandError(f"the embedded stack {words}; its last words:\n{last}")
