"""Verifies signed test results of evaluations offline, and repeats their checks."""

from __future__ import annotations

import base64
import binascii
import hashlib

from pydantic import ValidationError

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.evaluations.gate import Check, Gate, check_thresholds
from d4explain.contracts.evaluations.gate_results import (
    GATE,
    GateResult,
    ResourceDescriptor,
)
from d4explain.contracts.evaluations.results import EvaluationResult
from d4explain.contracts.receipts.envelopes import (
    TEST_RESULT,
    Statement,
    VerificationError,
    opened,
)
from d4explain.contracts.receipts.verification import Keys


def verify_test_result(
    envelope: bytes, keys: Keys, result: bytes | None = None
) -> tuple[Statement, GateResult]:
    """The statement and what the gate found; `result` is the evaluation's, byte for byte.

    With it, the thresholds are checked again.
    """
    said = opened(envelope, keys, TEST_RESULT)
    try:
        found = GateResult.model_validate(said.predicate)
    except ValidationError:
        raise VerificationError("it is a test result of another program or version") from None
    gate = _gate(found)
    if result is not None:
        _check_again(gate, found, result)
    return said, found


def _gate(found: GateResult) -> Gate:
    described = _described(found, GATE)
    try:
        content = base64.b64decode(described.content or "", validate=True)
        gate = Gate.model_validate_json(content)
    except (binascii.Error, ValidationError):
        raise VerificationError("the gate of the test result is not readable") from None
    if hashlib.sha256(content).hexdigest() != described.digest.sha256:
        raise VerificationError("the gate does not have the SHA-256 that stands beside it")
    return gate


def _check_again(gate: Gate, found: GateResult, result: bytes) -> None:
    described = _described(found, "/result", is_ending=True)
    sha256 = hashlib.sha256(result).hexdigest()
    if sha256 != described.digest.sha256:
        raise VerificationError(
            f"the result has the SHA-256 {sha256}; the test result is about "
            f"{described.digest.sha256}"
        )
    try:
        checks = check_thresholds(gate.threshold, EvaluationResult.model_validate_json(result))
    except (ValidationError, InvalidInput):
        raise VerificationError("the thresholds cannot be checked with this version") from None
    for check in checks:
        if check.text not in _listed(found, check):
            raise VerificationError(f"checked again, it is: {check.text}")


def _listed(found: GateResult, check: Check) -> list[str]:
    if not check.passed:
        return found.failedTests
    return found.warnedTests if check.doubtful else found.passedTests


def _described(found: GateResult, name: str, *, is_ending: bool = False) -> ResourceDescriptor:
    for one in found.configuration:
        if one.name == name or (
            is_ending and one.name.startswith("evl_") and one.name.endswith(name)
        ):
            return one
    raise VerificationError(f"the test result does not name its {name.strip('/')}")
