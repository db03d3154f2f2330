"""Figures and tags of results; what people write into tags."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.results import ClassResult
from d4explain.mlflow.result_metrics import (
    class_metrics,
    counterfactual_metrics,
    verdict,
    verdict_counts,
)
from d4explain.mlflow.run_files import artifact_folders
from d4explain.mlflow.version_record import Tag, VersionRecord
from service import examples


def result(verdicts: list[str | None]) -> CounterfactualResult:
    """One answer per verdict; None means that nothing was found."""
    document: dict[str, Any] = deepcopy(examples.EXPLANATION["result"])
    example = document["answers"][0]
    best = example["counterfactuals"][0]
    document["answers"] = [
        {
            **example,
            "found": one is not None,
            "counterfactuals": [] if one is None else [{**best, "verdict": one}],
        }
        for one in verdicts
    ]
    return CounterfactualResult.model_validate(document)


@given(st.lists(st.sampled_from(["meaningful", "brittle", "unjudged", None]), max_size=12))
def test_the_verdict_of_a_version_is_that_of_most_judged_answers(verdicts: list[str]) -> None:
    found = verdict(result(verdicts))
    good, bad = verdicts.count("meaningful"), verdicts.count("brittle")
    if good + bad:
        assert found == ("meaningful" if good > bad else "brittle")
    else:
        assert found == ("unjudged" if "unjudged" in verdicts else "none found")


def test_the_counts_name_what_was_not_found() -> None:
    counted = verdict_counts(result(["meaningful", "meaningful", "brittle", None]))
    assert counted == "2 meaningful, 1 brittle, 0 unjudged, 1 without a counterfactual"


def test_metrics_are_the_figures_of_the_result() -> None:
    example = result(["meaningful", "brittle"])
    metrics = counterfactual_metrics(example)
    assert example.mmd is not None
    assert metrics["d4explain/mmd"] == example.mmd.sum
    assert metrics["d4explain/mmd_null_p95"] == example.mmd.null_quantiles["0.95"]
    assert metrics["d4explain/validity"] == example.summary.flip_rate
    typicality = example.answers[0].counterfactuals[0].typicality
    assert typicality is not None
    assert metrics["d4explain/typicality"] == pytest.approx(typicality.value)


def test_unknown_figures_are_left_out() -> None:
    unknown = result([None]).model_copy(update={"mmd": None})
    assert not {"d4explain/mmd", "d4explain/typicality"} & counterfactual_metrics(unknown).keys()


def test_metrics_of_a_class_have_names_that_mlflow_accepts() -> None:
    found = ClassResult.model_validate(examples.CLASS_EXPLANATION["result"])
    metrics = class_metrics("class \u00e4*b c", found)
    assert metrics["d4explain/class___b_c/patterns"] == len(found.examples)
    assert metrics["d4explain/class___b_c/effect"] == found.examples[0].effect.mean


@given(st.dictionaries(st.sampled_from(list(Tag)), st.text(max_size=30)))
def test_any_tags_can_be_read(tags: dict[str, str]) -> None:
    record = VersionRecord.of(tags)
    assert record.attempt >= 0
    assert all(isinstance(one, str) for one in record.explanations.values())


def test_explanations_are_read_as_they_were_written() -> None:
    asked = {"counterfactual": "exp_1", "class a, b": "exp_2"}
    tags = {Tag.EXPLANATIONS: json.dumps(asked), Tag.STATE: "running", Tag.ATTEMPT: "3"}
    record = VersionRecord.of(tags)
    assert (record.explanations, record.state, record.attempt) == (asked, "running", 3)


def test_the_folder_of_a_version_comes_before_that_of_its_run() -> None:
    assert artifact_folders({}, {}) == ["d4explain", ""]
    assert artifact_folders({}, {"d4explain.folder": "/run/"}) == ["run"]
    assert artifact_folders({"d4explain.folder": "version"}, {"d4explain.folder": "run"}) == [
        "version"
    ]
