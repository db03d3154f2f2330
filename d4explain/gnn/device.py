"""The device of a computation, and how much of it a training uses."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

# A CPU is fastest if the activations of a block, about eight of [channel, pair of all graphs], stay
# in its last-level cache.
CPU_ACTIVATION_BYTES = 3 * 2**20
CUDA_SHARE = 0.25  # of the memory, for kept activations; temporary ones need as much again


# The next pass needs the memory that a pass frees. By default, the C library returns it to the
# kernel and gets it back page by page, in every pass of every step.
_TRIM_THRESHOLD = 256 * 2**20
_MMAP_THRESHOLD = 32 * 2**20  # the maximum that the GNU C library accepts
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # constants of malloc.h


def keep_freed_memory() -> bool:
    """Makes this process keep freed memory; returns False if the C library is not GNU's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    results = (
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD),
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD),
    )
    return all(results)


def choose_device(name: str) -> torch.device:
    """`auto` takes the first CUDA device if there is one; a named device must exist."""
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be auto, cpu or cuda:<number>; got {name!r}") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise ValueError(f"device must be auto, cpu or cuda:<number>; got {name!r}")
    if (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"{name} does not exist; CUDA devices: {torch.cuda.device_count()}")
    return torch.device("cuda", device.index or 0)


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on that device; copies to CUDA use page-locked memory and are asynchronous."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True)
class DeviceUse:
    """How a training uses its device; explanations always use full precision."""

    kind: str  # the device's type
    activation_bytes: int  # maximum size of one activation in a pass
    products: torch.dtype | None  # of the denoiser's products; None means that of its weights

    @staticmethod
    def of(device: torch.device, kept: int) -> DeviceUse:
        """For a network that keeps `kept` activations per pass."""
        if device.type != "cuda":
            return DeviceUse(device.type, CPU_ACTIVATION_BYTES, None)
        memory = torch.cuda.get_device_properties(device).total_memory
        return DeviceUse.of_cuda(kept, memory, bfloat16=torch.cuda.is_bf16_supported())

    @staticmethod
    def of_cuda(kept: int, memory: int, *, bfloat16: bool) -> DeviceUse:
        """Uses the total memory, not the free memory, so that equal trainings have equal passes."""
        products = torch.bfloat16 if bfloat16 else None
        return DeviceUse("cuda", int(CUDA_SHARE * memory) // kept, products)

    def passes(self, graphs: int, bytes_per_graph: int) -> list[slice]:
        """Ranges of a batch's graphs of nearly equal length, each small enough for one pass."""
        most = max(1, self.activation_bytes // max(bytes_per_graph, 1))
        count = -(-graphs // most)
        ends = [graphs * number // count for number in range(count + 1)]
        return [slice(*pair) for pair in pairwise(ends)]

    def fast_products(self) -> AbstractContextManager[object]:
        """Context of a forward pass whose matrix products may have less precision."""
        if self.products is None:
            return nullcontext()
        return torch.autocast(self.kind, self.products)
