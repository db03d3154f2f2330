"""Computes golden answers, stores them and compares answers with them.

Symmetric edits have equal scores up to rounding, so float32 kernels of another CPU may order them
differently. `generate` therefore keeps two kinds of instances: most have the same answer with the
kernels of several CPU types, and the test compares them everywhere. The answers of the group
`TIED` depend on the kernels; the test compares them only on the same CPU with as many threads.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.golden.engine import CLASS_SAMPLERS, SETTINGS, GoldenData, GoldenEngine

FOLDER = Path(__file__).parent
DEFAULT_SETTING = "balanced"
TIED = "balanced, tied"  # the default setting, on instances whose answers depend on the kernels
CLASSES = tuple(f"class, {sampler}" for sampler in CLASS_SAMPLERS)
GROUPS = (*SETTINGS, TIED, *CLASSES)

Ids = Mapping[str, list[int]]  # by group: instance ids, or seeds of class explanations


@dataclass(frozen=True)
class Tolerance:
    relative: float
    absolute: float


SAME_MACHINE = Tolerance(1e-6, 1e-9)
# Kernels of other CPUs sum float32 in another order. A small probability has the absolute error of
# its logit as relative error, and a likelihood near zero is a difference of larger numbers.
OTHER_MACHINE = Tolerance(2e-4, 2e-6)


@dataclass(frozen=True)
class Golden:
    """The stored or recomputed answers of one data set."""

    made_with: dict[str, str]
    instances: dict[str, str]  # hash of the input graph, by id
    answers: dict[str, dict[str, Any]]  # by group and id

    @property
    def ids(self) -> Ids:
        return {group: [int(key) for key in found] for group, found in self.answers.items()}

    @property
    def digest(self) -> str:
        """SHA-256 of the exact numbers: JSON writes the repr of a float."""
        content = json.dumps(self.answers, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def tolerance(self) -> Tolerance:
        return SAME_MACHINE if self.made_with == machine() else OTHER_MACHINE

    def write(self, file: Path) -> None:
        """One line per answer, so that a diff shows which ones changed."""
        groups = []
        for group, found in self.answers.items():
            rows = ",\n".join(f'"{key}": {json.dumps(answer)}' for key, answer in found.items())
            groups.append(f'"{group}": {{\n{rows}\n}}')
        file.write_text(
            f'{{"made_with": {json.dumps(self.made_with)},\n'
            f'"instances": {json.dumps(self.instances)},\n'
            '"answers": {\n' + ",\n".join(groups) + "\n}}\n"
        )

    @staticmethod
    def read(file: Path) -> Golden:
        return Golden(**json.loads(file.read_text()))


def expected_file(name: str) -> Path:
    return FOLDER / name / "expected.json"


def machine() -> dict[str, str]:
    """Everything that affects the last bits of float32 results."""
    return {
        "torch": torch.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "cpu": _cpu_model(),
        "threads": str(torch.get_num_threads()),
    }


def _cpu_model() -> str:
    """Name, family and model number: virtual machines share names between CPU generations."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    first: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    keys = ("model name", "cpu family", "model", "stepping")
    return " ".join(first[key] for key in keys if key in first) or platform.machine()


def answer(engine: GoldenEngine, group: str, identity: int) -> Any:
    """One answer as a JSON document; the seed of a counterfactual is its id."""
    if group in CLASSES:
        return engine.class_explanation(CLASS_SAMPLERS[CLASSES.index(group)], identity)
    setting = DEFAULT_SETTING if group == TIED else group
    return engine.counterfactual(identity, setting, seed=identity)


def compute_answers(engine: GoldenEngine, ids: Ids) -> Golden:
    """Computes answers with the current code and the stored weights."""
    explained = {one for group, some in ids.items() if group not in CLASSES for one in some}
    return Golden(
        made_with=machine(),
        instances={str(one): engine.fingerprint(one) for one in sorted(explained)},
        answers={
            group: {str(one): answer(engine, group, one) for one in some}
            for group, some in ids.items()
        },
    )


def stored_engine(name: str) -> GoldenEngine:
    return GoldenEngine(GoldenData(name), FOLDER / name)


def differences(
    expected: object, actual: object, tolerance: Tolerance, pointer: str = ""
) -> Iterator[str]:
    """Yields the differences of two documents; only floats have a tolerance."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            yield f"{pointer}: keys {sorted(actual)} instead of {sorted(expected)}"
            return
        for key, value in expected.items():
            yield from differences(value, actual[key], tolerance, f"{pointer}/{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{pointer}: {len(actual)} entries instead of {len(expected)}"
            return
        for position, value in enumerate(expected):
            yield from differences(value, actual[position], tolerance, f"{pointer}/{position}")
    elif isinstance(expected, float) and isinstance(actual, float):
        if not math.isclose(
            expected, actual, rel_tol=tolerance.relative, abs_tol=tolerance.absolute
        ):
            yield f"{pointer}: {actual!r} instead of {expected!r}"
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{pointer}: {actual!r} instead of {expected!r}"
