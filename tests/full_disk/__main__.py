"""`python -m tests.full_disk --every 10`: each write, or every tenth, fails in turn.

A first life without faults counts its writes. In later ones, write number n fails: `once`; and all
later writes until space is freed; and after half of its bytes were stored.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.full_disk.failing_writes import FailingDisk, compiler, preloading_environment

NO_COMPILER = 3
_PRELOADED = "FULL_DISK_PRELOADED"
_MODES: dict[str, Callable[[FailingDisk, int], None]] = {
    "once": FailingDisk.fail_once,
    "full": FailingDisk.fail_from,
    "half": FailingDisk.fail_half,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.full_disk", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="of how many writes one fails")
    parser.add_argument("--first", type=int, default=1, help="the first write that fails")
    parser.add_argument("--modes", default=",".join(_MODES))
    chosen = parser.parse_args(arguments)
    if compiler() is None:
        print("a C compiler (cc) is needed")
        return NO_COMPILER
    with tempfile.TemporaryDirectory() as folder:
        if _PRELOADED not in os.environ:
            environment = {**preloading_environment(Path(folder)), _PRELOADED: folder}
            command = [sys.executable, "-m", "tests.full_disk", *arguments]
            return os.spawnve(os.P_WAIT, sys.executable, command, environment)
        return _run(Path(folder), chosen.modes.split(","), chosen.first, chosen.every)


def _run(folder: Path, modes: list[str], first: int, every: int) -> int:
    from store.database.sessions import Database  # noqa: PLC0415
    from tests.full_disk.life import live  # noqa: PLC0415 - imports torch
    from tests.receivers import receiver  # noqa: PLC0415

    template = folder / "template.sqlite"
    database = Database(f"sqlite:///{template}")
    database.migrate()
    database.close()
    bad = 0
    with receiver() as target:

        def one(name: str, fail: Callable[[FailingDisk], None]):
            return live(folder / name, template, target, fail)

        calm = one("calm", lambda _: None)
        assert not calm.faults, calm.faults
        print(f"{calm.writes} writes without faults")
        for mode in modes:
            refusals: Counter[str] = Counter()
            files: Counter[str] = Counter()
            chosen = range(first, calm.writes + 1, every)
            for number in chosen:
                life = one(f"{mode}-{number}", partial(_fail, mode, number))
                for name in ("result", "weights", "rows"):
                    if not life.faults and getattr(life, name) != getattr(calm, name):
                        life.faults.append(
                            f"{name}: {getattr(life, name)} instead of {getattr(calm, name)}"
                        )
                refusals.update(life.refusals)
                files[_kind_of(life.what_failed)] += 1
                bad += bool(life.faults)
                for fault in life.faults:
                    print(f"{mode} {number} ({life.what_failed}): {fault}", flush=True)
            if not refusals:
                print(f"{mode}: nobody was refused anything: the disk was never full")
                bad += 1
            print(f"{mode}: {len(chosen)} lives; first failures: {dict(files.most_common())}")
            print(f"{mode}: refusals: {dict(refusals.most_common())}", flush=True)
    print(f"{bad} lives with broken promises")
    return 1 if bad else 0


def _fail(mode: str, number: int, disk: FailingDisk) -> None:
    _MODES[mode](disk, number)


def _kind_of(what: str) -> str:
    """`pwrite /d4explain.sqlite-wal` as it is; artifacts without their digests."""
    call, _, path = what.partition(" ")
    if path.startswith("/artifacts"):
        path = "unfinished artifact" if path.endswith(".tmp") else "artifact or its folder"
    return f"{call} {path}".strip() or "nothing failed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
