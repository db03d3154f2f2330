"""Which device a computation runs on."""

from __future__ import annotations

import torch


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
