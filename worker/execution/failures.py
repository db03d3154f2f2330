"""Decides which failures are retried and what message the user sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.errors import DomainError
from d4explain.gnn.errors import RefusedError
from store.artifacts.disk_space import is_disk_full
from store.errors import (
    ArtifactCorrupt,
    ArtifactDeleted,
    ArtifactMissing,
    ArtifactsUnavailable,
)

DISK_FULL = "disk_full"
ARTIFACTS_UNAVAILABLE = "artifacts_unavailable"
# The same input may succeed later or on another worker: memory, disk, network, device.
_TRANSIENT = (MemoryError, OSError, SQLAlchemyError, torch.OutOfMemoryError, torch.AcceleratorError)
_ARTIFACT_ERRORS = (ArtifactCorrupt, ArtifactDeleted, ArtifactMissing, ArtifactsUnavailable)
# The request cannot be fulfilled; these errors carry messages for users.
_USER_ERRORS = (RefusedError, DomainError)


@dataclass(frozen=True)
class Failure:
    kind: str
    message: str
    retryable: bool
    unsound_process: bool = False  # later jobs would fail in this process, too
    counts: bool = True  # as one of the job's attempts


def failure_of(error: Exception) -> Failure:
    if _is_out_of_memory(error):
        return Failure("out_of_memory", "The job needs more memory than this worker has.", True)
    if is_disk_full(error):
        return Failure(DISK_FULL, "The disk is full: the job could not store its data.", True)
    if isinstance(error, _ARTIFACT_ERRORS):
        kind = ARTIFACTS_UNAVAILABLE if isinstance(error, ArtifactsUnavailable) else "artifact"
        return Failure(kind, str(error), True)
    if isinstance(error, _TRANSIENT):
        message = (
            f"Transient worker error ({type(error).__name__}); "
            "the job is retried while it has attempts left."
        )
        # A CUDA context does not recover from an error.
        unsound = isinstance(error, torch.AcceleratorError)
        return Failure("worker", message, True, unsound_process=unsound)
    if isinstance(error, _USER_ERRORS):
        return Failure("invalid", str(error), False)
    # Any other error is a bug. Its message may contain paths or data, so only the log shows it.
    # The same input would most likely fail again.
    message = f"Internal error ({type(error).__name__}); see the worker's log for details."
    return Failure("internal", message, False)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # On the CPU torch raises a RuntimeError whose text depends on the operating system.
    texts = ("can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
