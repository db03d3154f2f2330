"""The engine gives the answers that `tests/golden/generate.py` stored."""

from __future__ import annotations

import os
from functools import cache

import pytest
import torch

from tests.golden.answers import (
    DEFAULT_SETTING,
    GROUPS,
    TIED,
    Golden,
    answer,
    differences,
    expected_file,
    machine,
    stored_engine,
)
from tests.golden.engine import FILES, GoldenEngine, missing_data

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

_SHOWN = 20  # differences in a failure's message


@cache
def engine_of(name: str) -> GoldenEngine:
    reason = missing_data(name)
    if reason is not None:
        pytest.skip(reason)
    return stored_engine(name)


@cache
def golden_of(name: str) -> Golden:
    return Golden.read(expected_file(name))


@pytest.mark.parametrize("name", FILES)
def test_the_input_graphs_have_not_changed(name: str) -> None:
    engine = engine_of(name)
    stored = golden_of(name).instances
    assert {key: engine.fingerprint(int(key)) for key in stored} == stored


@pytest.mark.parametrize("name", FILES)
def test_the_golden_answers_include_different_numbers_of_edits(name: str) -> None:
    answers = golden_of(name).answers[DEFAULT_SETTING]
    assert len(answers) == 20
    assert sum(one["found"] for one in answers.values()) >= 15
    sizes = {len(found["edits"]) for one in answers.values() for found in one["counterfactuals"]}
    assert len(sizes) > 1


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", FILES)
def test_answers_equal_the_golden_answers(name: str, group: str) -> None:
    engine, golden = engine_of(name), golden_of(name)
    if group == TIED and golden.made_with != machine():
        pytest.skip(f"ties are decided by the kernels of {golden.made_with}, not {machine()}")
    found = {key: answer(engine, group, int(key)) for key in golden.answers[group]}
    wrong = list(differences(golden.answers[group], found, golden.tolerance))
    shown = "\n".join(wrong[:_SHOWN])
    assert not wrong, f"{len(wrong)} differences, answers of {golden.made_with}:\n{shown}"
