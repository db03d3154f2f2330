"""The soak finds growth of memory, descriptors and threads, and overlooks noise."""

from __future__ import annotations

import random

import psutil
import pytest

from tests.soak import Sample, Trace, faults


def trace(bytes_per_job: float, descriptors_per_job: float = 0.0) -> Trace:
    rng = random.Random(1)
    samples = [
        Sample(
            jobs=jobs,
            memory=round(1e8 + bytes_per_job * jobs + rng.uniform(-2e5, 2e5)),
            descriptors=round(20 + descriptors_per_job * jobs) + rng.randint(0, 2),
            threads=7,
        )
        for jobs in range(0, 5000, 10)
    ]
    return Trace(psutil.Process(), samples)


def found(trace: Trace, failed: int = 0) -> dict[str, object]:
    return {"failed": failed, "processes": {"API": trace.figures(5000)}}


@pytest.mark.parametrize("slope", [0.0, 500.0, 4000.0])
def test_the_slope_is_that_of_the_samples(slope: float) -> None:
    assert trace(slope).figures(5000)["bytes_per_job"] == pytest.approx(slope, abs=20)


def test_growth_is_found() -> None:
    assert faults(found(trace(0.0))) == []
    assert faults(found(trace(1500.0)))[0].startswith("API: 1")
    assert faults(found(trace(0.0, descriptors_per_job=0.01))) == ["API: descriptors grow"]
    assert faults(found(trace(0.0), failed=2)) == ["2 jobs did not succeed"]


def test_memory_of_the_warm_up_does_not_count() -> None:
    warming = trace(0.0)
    early = [one for one in warming.samples if one.jobs < 1000]
    for sample in early:
        warming.samples[warming.samples.index(sample)] = Sample(sample.jobs, 10**6, 1, 1)
    assert faults(found(warming)) == []
