"""CPU and memory limits of a process, read from simulated cgroup files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from store.process_limits import cpu_limit, memory_limit

CPUS = len(os.sched_getaffinity(0))
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 2**20


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_without_cgroups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (CPUS, PHYSICAL)


def test_the_cgroup_files_of_this_machine_can_be_read() -> None:
    assert 0 < cpu_limit() <= CPUS
    assert 0 < memory_limit() <= PHYSICAL


def test_cgroup_v2_limits_of_a_container(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/memory.max": f"{256 * MIB}\n",
    }
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (0.5, 256 * MIB)


def test_cgroup_v2_without_limits(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cpu.max": "max 100000\n",
        "sys/fs/cgroup/memory.max": "max\n",
    }
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (CPUS, PHYSICAL)


def test_the_lowest_limit_of_all_parent_cgroups_applies(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/d4.slice/worker.service\n",
        "sys/fs/cgroup/d4.slice/worker.service/cpu.max": "max 100000\n",
        "sys/fs/cgroup/d4.slice/worker.service/memory.max": f"{512 * MIB}\n",
        "sys/fs/cgroup/d4.slice/cpu.max": "25000 100000\n",
        "sys/fs/cgroup/d4.slice/memory.max": f"{128 * MIB}\n",
    }
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (0.25, 128 * MIB)


@pytest.mark.parametrize("inside", ["", "docker/abc/"], ids=["in a container", "on the host"])
def test_cgroup_v1_limits(tmp_path: Path, inside: str) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n",
        f"sys/fs/cgroup/cpu,cpuacct/{inside}cpu.cfs_quota_us": "75000\n",
        f"sys/fs/cgroup/cpu,cpuacct/{inside}cpu.cfs_period_us": "100000\n",
        f"sys/fs/cgroup/memory/{inside}memory.limit_in_bytes": f"{64 * MIB}\n",
    }
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (0.75, 64 * MIB)


def test_cgroup_v1_without_limits(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/\n2:cpu,cpuacct:/\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    write(tmp_path, files)
    assert (cpu_limit(tmp_path), memory_limit(tmp_path)) == (CPUS, PHYSICAL)


def test_an_allocation_beyond_the_limit_fails_and_the_process_goes_on() -> None:
    code = """
import resource, torch
from store.process_limits import forbid_core_dumps, limit_own_memory
from worker.execution.failures import failure_of
forbid_core_dumps()
in_use = int(open("/proc/self/statm").read().split()[5]) * 4096
limit_own_memory(in_use + 300 * 2**20)
kept = torch.zeros(10 * 2**20)
for allocate in (lambda: torch.zeros(200 * 2**20), lambda: bytearray(800 * 2**20)):
    try:
        allocate()
    except (MemoryError, RuntimeError) as error:
        print(failure_of(error).kind)
print(kept.sum().item(), resource.getrlimit(resource.RLIMIT_CORE))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["out_of_memory", "out_of_memory", "0.0 (0, 0)"]


def test_the_default_limit_leaves_memory_to_other_processes() -> None:
    code = """
import resource
from store.process_limits import limit_own_memory, memory_limit
limit_own_memory()
soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
assert soft == int(0.9 * memory_limit()) < memory_limit(), soft
"""
    subprocess.run([sys.executable, "-c", code], check=True)
