from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from d4explain.contracts.requests import DenoiserConfig
from worker.execution.failures import failure_of


def test_torch_without_memory_is_a_transient_error() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    failure = failure_of(caught.value)
    assert (failure.kind, failure.retryable) == ("out_of_memory", True)


@pytest.mark.parametrize("error", [ValueError("/srv/secret: bad magic"), KeyError("secret")])
def test_a_bug_is_reported_as_an_internal_error(error: Exception) -> None:
    failure = failure_of(error)
    assert (failure.kind, failure.retryable) == ("internal", False)
    assert type(error).__name__ in failure.message
    assert "secret" not in failure.message


def test_an_invalid_stored_document_is_an_internal_error() -> None:
    with pytest.raises(ValidationError) as caught:
        DenoiserConfig.model_validate({"steps": "many"})
    assert failure_of(caught.value).kind == "internal"
