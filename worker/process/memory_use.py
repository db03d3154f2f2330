"""The memory that a child process and its device use, for Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from store.process_limits import memory_limit

_STATUS = Path("/proc/self/status")
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


def memory_use(device: str) -> dict[str, int]:
    """Bytes; those of the device only for a GPU, since the CPU's memory is that of the process."""
    figures = {"resident_bytes": _resident_bytes(), "limit_bytes": memory_limit()}
    if device.startswith("cuda"):
        free, total = torch.cuda.mem_get_info(device)
        figures |= {"device_used_bytes": total - free, "device_bytes": total}
    return figures


def _resident_bytes() -> int:
    found = _RESIDENT.search(_STATUS.read_text()) if _STATUS.exists() else None
    return int(found[1]) * 1024 if found else 0
