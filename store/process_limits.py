"""CPU and memory limits of this process: reads those of cgroups v1 and v2, and sets its own.

A container sees all cores and memory of its host; its limits are in the cgroup files.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_JOB_SHARE = 0.9  # of the memory; the rest is for the other processes of the container


def cpu_limit(root: Path = _ROOT) -> float:
    """Number of CPUs that this process may use, by affinity and quota; it may be fractional."""
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return min([float(len(affinity) or os.cpu_count() or 1), *_quotas(root)])


def memory_limit(root: Path = _ROOT) -> int:
    """Bytes that the processes of this cgroup may use; at most the physical memory."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [
        _number(folder / name)
        for folder in _folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return int(min([float(physical), *limits]))


def forbid_core_dumps() -> None:
    """A core dump would write keys, weights and graphs to the disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_own_memory(limit: int | None = None) -> None:
    """Makes a too large allocation fail, so that only its job fails.

    Otherwise the kernel would kill the process, and other attempts would follow. `RLIMIT_DATA`
    counts private writable memory; `RLIMIT_AS` would also count files that are mapped.
    """
    allowed = int(_JOB_SHARE * memory_limit()) if limit is None else limit
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        allowed = min(allowed, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def _quotas(root: Path) -> list[float]:
    quotas = []
    for folder in _folders(root, "cpu"):
        text = _text(folder / "cpu.max").split()  # "<quota> <period>", or "max <period>"
        if len(text) == 2:
            quotas.append(_as_number(text[0]) / _as_number(text[1]))
        quota = _number(folder / "cpu.cfs_quota_us")  # -1 means no limit
        period = _number(folder / "cpu.cfs_period_us")
        if math.isfinite(period):
            quotas.append(quota / period)
    return quotas


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The cgroup of this process and its ancestors; each one may set a limit."""
    mounted = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            top = mounted
        elif controller in controllers.split(","):
            top = mounted / controllers
        else:
            continue
        # Inside a container the path may be the host's; a missing folder has no limits.
        here = top / path.lstrip("/")
        yield here
        while here != top:
            here = here.parent
            yield here


def _number(file: Path) -> float:
    return _as_number(_text(file).strip())


def _as_number(text: str) -> float:
    """Infinite if there is no limit: "max", a negative number or a missing file."""
    try:
        number = float(text)
    except ValueError:
        return math.inf
    return number if number > 0 else math.inf


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # another system, or a kernel without this controller
        return ""
