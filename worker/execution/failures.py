"""Which failures are worth another attempt, and what the caller is told about them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import DomainError
from d4explain.gnn.errors import RefusedError
from store.artifacts.disk_space import is_disk_full
from store.errors import ArtifactCorrupt, ArtifactMissing

# The same input may well succeed later or elsewhere: memory, disk, network, device.
_PASSING = (MemoryError, OSError, SQLAlchemyError, torch.OutOfMemoryError, torch.AcceleratorError)
# What the caller asked for cannot be done; the words were written for the caller.
_EXPLAINED = (RefusedError, DomainError)


@dataclass(frozen=True)
class Failure:
    kind: str
    message: str
    retryable: bool
    unsound_process: bool = False  # whatever this process tries next will fail as well
    counts: bool = True  # as one of the job's attempts


def failure_of(error: Exception) -> Failure:
    if _is_out_of_memory(error):
        return Failure("out_of_memory", "the job needs more memory than this worker has", True)
    if is_disk_full(error):
        return Failure("disk_full", "a disk of this deployment is full", True, counts=False)
    if isinstance(error, ArtifactMissing | ArtifactCorrupt):
        return Failure("artifact", str(error), True)
    if isinstance(error, _PASSING):
        message = f"the worker met a passing fault ({type(error).__name__})"
        # A CUDA context does not recover from an error.
        unsound = isinstance(error, torch.AcceleratorError)
        return Failure("worker", message, True, unsound_process=unsound)
    if isinstance(error, _EXPLAINED):
        return Failure("invalid", str(error), False)
    # Any other error is a mistake of ours, and its words may tell of paths or data: they are in the
    # log. The same input would most likely fail again.
    message = f"internal error ({type(error).__name__}); the worker's log has the details"
    return Failure("internal", message, False)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # On the CPU torch has no type for it, and says it differently on Linux and elsewhere.
    words = ("can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)
