"""What a gate found about an evaluation, as a test result that can be signed.

https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from d4explain.contracts.evaluations.gate import (
    Check,
    Gate,
    GatePart,
    check_comparison,
    check_thresholds,
)
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult

GATE = "gate"  # the name of its descriptor
Outcome = Literal["PASSED", "WARNED", "FAILED"]


class GateDigest(GatePart):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class ResourceDescriptor(GatePart):
    """What a test used, by its digest; a gate is small enough to be contained."""

    name: str
    digest: GateDigest
    content: str | None = Field(
        None, description="The bytes in base64.", exclude_if=lambda content: content is None
    )
    mediaType: str | None = Field(  # noqa: N815 - the name in in-toto
        None, exclude_if=lambda kind: kind is None
    )


class GateResult(GatePart):
    """The predicate; the names of its fields are those of in-toto."""

    result: Outcome
    configuration: list[ResourceDescriptor] = Field(min_length=1)
    passedTests: list[str]  # noqa: N815
    warnedTests: list[str]  # noqa: N815
    failedTests: list[str]  # noqa: N815

    @property
    def count(self) -> int:
        return len(self.passedTests) + len(self.warnedTests) + len(self.failedTests)


def gate_checks(
    gate: Gate, evaluation: EvaluationResult, comparison: ComparisonResult | None
) -> list[Check]:
    """All checks of a gate; it has no comparison if nothing is to be compared."""
    checks = check_thresholds(gate.threshold, evaluation)
    if gate.comparison is not None and comparison is not None:
        checks += check_comparison(gate.comparison, comparison)
    return checks


def outcome_of(checks: Sequence[Check]) -> Outcome:
    """FAILED if one check failed; else WARNED if one passed with a doubt; else PASSED."""
    if any(not check.passed for check in checks):
        return "FAILED"
    return "WARNED" if any(check.doubtful for check in checks) else "PASSED"


def gate_result(checks: Sequence[Check], configuration: list[ResourceDescriptor]) -> GateResult:
    return GateResult(
        result=outcome_of(checks),
        configuration=configuration,
        passedTests=[one.text for one in checks if one.passed and not one.doubtful],
        warnedTests=[one.text for one in checks if one.passed and one.doubtful],
        failedTests=[one.text for one in checks if not one.passed],
    )
