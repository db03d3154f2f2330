"""Names the hardware and the torch build of this process, on which rounding errors depend."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch

from d4explain.contracts.receipts.receipt import Environment

_CPU_INFO = Path("/proc/cpuinfo")


def environment_of(device: torch.device) -> Environment:
    name = str(device.type)
    if device.type == "cuda":
        name += f" {torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}"
    revision = torch.version.git_version or "unknown"
    return Environment(
        device=name,
        cpu=f"{_cpu_model()}, {torch.backends.cpu.get_cpu_capability()}",
        torch=f"{torch.__version__} ({revision[:12]})",
        threads=torch.get_num_threads(),
    )


def why_not_comparable(recorded: Environment | None, present: Environment) -> str | None:
    """Why this process may round differently; None if it computes like the recorded one."""
    if recorded is None:
        return "the receipt is of an earlier version, which did not record where it was computed"
    names = {"device": "device", "cpu": "CPU type", "torch": "torch build", "threads": "threads"}
    was, is_now = recorded.model_dump(), present.model_dump()
    changed = [
        f"{title} was {was[field]} and is {is_now[field]}"
        for field, title in names.items()
        if was[field] != is_now[field]
    ]
    return "; ".join(changed) or None


@cache
def _cpu_model() -> str:
    """As Linux names it; elsewhere the architecture."""
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(errors="replace").splitlines():
            name, _, text = line.partition(":")
            if name.strip() in ("model name", "CPU part"):
                return text.strip()
    return platform.processor() or platform.machine()
