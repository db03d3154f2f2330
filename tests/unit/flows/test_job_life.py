"""Tenants, keys, metadata, cancellations, retries, deletions, purges, dying workers, in any order.

The long form: `D4_TEST_RUNS=2000 python -m pytest tests/unit/flows/test_job_life.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.flows.job_life import JobLife, options

if TYPE_CHECKING:
    from conftest import Deployment

RUNS, STEPS = int(os.environ.get("D4_TEST_RUNS", "15")), 20


@pytest.mark.timeout(0)
def test_any_order_of_actions_agrees_with_the_model(shared_api: Deployment) -> None:
    JobLife.api = shared_api
    run_state_machine_as_test(JobLife, settings=options(RUNS, STEPS))
