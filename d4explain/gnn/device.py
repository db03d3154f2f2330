"""Which device a computation runs on, and how it is used there."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

# A CPU computes fastest where a block's activations stay in its last cache: of one activation
# [channel, pair of all graphs] they are some eight.
CPU_ACTIVATION_BYTES = 3 * 2**20
CUDA_SHARE = 0.25  # of its memory, for what a pass keeps: as much again comes and goes


# What a pass frees the next one needs again. The C library would give it back to the kernel and
# get it anew page by page, in every pass of every step.
_KEPT_WHEN_FREED = 256 * 2**20
_LARGEST_FROM_HEAP = 32 * 2**20  # more than this the GNU library does not take
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of its malloc.h


def keep_freed_memory() -> bool:
    """For processes that compute: freed memory stays with them; False where it cannot be told so.

    Only the GNU C library is told; others do as they always do.
    """
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is None:
        return False
    told = tell(_M_MMAP_THRESHOLD, _LARGEST_FROM_HEAP), tell(_M_TRIM_THRESHOLD, _KEPT_WHEN_FREED)
    return all(told)


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
    """The tensor on that device; copies to CUDA go by page-locked memory and are not waited for."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(frozen=True)
class DeviceUse:
    """How a training uses its device; what explains and judges is always computed in full."""

    kind: str  # the device's type
    activation_bytes: int  # of one activation in a pass, at most
    products: torch.dtype | None  # of the denoiser's products; None: that of its weights

    @staticmethod
    def of(device: torch.device, kept: int) -> DeviceUse:
        """For a network that keeps so many activations per pass."""
        if device.type != "cuda":
            return DeviceUse(device.type, CPU_ACTIVATION_BYTES, None)
        memory = torch.cuda.get_device_properties(device).total_memory
        return DeviceUse.of_cuda(kept, memory, bfloat16=torch.cuda.is_bf16_supported())

    @staticmethod
    def of_cuda(kept: int, memory: int, *, bfloat16: bool) -> DeviceUse:
        """By all of its memory, not by what is free now: the same trainings add up alike."""
        products = torch.bfloat16 if bfloat16 else None
        return DeviceUse("cuda", int(CUDA_SHARE * memory) // kept, products)

    def passes(self, graphs: int, bytes_per_graph: int) -> list[slice]:
        """Ranges of a batch's graphs, as equal as can be, each small enough for one pass."""
        most = max(1, self.activation_bytes // max(bytes_per_graph, 1))
        count = -(-graphs // most)
        ends = [graphs * number // count for number in range(count + 1)]
        return [slice(*pair) for pair in pairwise(ends)]

    def fast_products(self) -> AbstractContextManager[object]:
        """Around a forward pass whose matrix products may be of less precision."""
        if self.products is None:
            return nullcontext()
        return torch.autocast(self.kind, self.products)
