"""Audit reports, model cards and signed test results of real evaluations, over HTTP."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sys
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from d4explain.contracts.receipts.envelopes import VerificationError, public_keys
from d4explain.contracts.receipts.gate_verification import verify_test_result
from tests.unit.flows.test_evaluations import World

Document = dict[str, Any]
TITLES = [
    "Intended purpose, GNN and data",
    "The decisions of the GNN",
    "Examples in plain words",
    "What changes the decisions",
    "Validity, transfer, typicality, stability",
    "By class and size",
    "Methods and known limits",
    "Sign-off",
    "Receipt and replay",
    "How long it is kept",
]
GATE = {
    "threshold": [
        {"figure": "validity", "explainer": "search", "min": 0.0, "bound": "low"},
        {"figure": "edits", "explainer": "search", "max": 100},
    ]
}


@pytest.fixture(scope="module")
def world(deployed: Callable[..., Any]) -> World:
    return World(deployed())


@pytest.fixture(scope="module")
def evaluation(world: World) -> Document:
    metrics = ["transfer", "mmd", "robustness"]
    return world.evaluated(explainers=["search", "greedy"], metrics=metrics, seed=4)


@pytest.fixture(scope="module")
def keys(world: World) -> Any:
    listed = world.api.client.get("/v1/signing-keys").json()["keys"]
    return public_keys("".join(key["public_key"] for key in listed).encode())


def report(world: World, id_: str, **query: Any) -> Any:
    answer = world.api.client.get(f"/v1/evaluations/{id_}/report", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def content(world: World, id_: str, **query: Any) -> Document:
    document: Document = report(world, id_, format="json", **query).json()
    return document


def text_of(section: Document) -> str:
    return json.dumps(section, ensure_ascii=False)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_has_ten_parts_and_loads_nothing(world: World, evaluation: Document) -> None:
    answer = report(world, evaluation["id"])
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    page = _Page()
    page.feed(answer.text)
    assert page.tags.count("h2") == len(TITLES)
    assert page.tags.count("svg") >= 10  # six examples, two curves, and three plots per explainer
    assert "script" not in page.tags
    assert all(address.startswith("#") for address in page.addresses)
    assert "url(" not in answer.text
    assert "@import" not in answer.text


def test_the_json_says_the_same_as_the_evaluation(world: World, evaluation: Document) -> None:
    document = content(world, evaluation["id"])
    assert [section["title"] for section in document["sections"]] == TITLES
    whole = {
        (one["figure"], one["explainer"]): one
        for one in document["figures"]
        if one["slice"] is None
    }
    for explained in evaluation["result"]["explainers"]:
        for name in ("edits", "cf_acc_auc", "gnn_evaluations", "robustness"):
            shown, stored = whole[name, explained["explainer"]], explained[name]
            assert (shown["value"], shown["low"], shown["high"], shown["count"]) == (
                stored["value"], stored["low"], stored["high"], stored["count"],
            )  # fmt: skip
        assert whole["mmd", explained["explainer"]]["value"] == explained["mmd"]["sum"]
    for one in document["figures"]:
        if one["value"] is None:
            assert one["note"], one
        else:
            assert one["count"], one
            has_interval = one["low"] is not None and one["high"] is not None
            assert has_interval or one["figure"] in ("ceiling", "mmd", "mmd_before"), one
    assert whole["stability", "search"]["note"] == (
        "the evaluation did not ask for the metric stability"
    )
    assert "Not measured: typicality, stability, c2st." in text_of(document["sections"][6])


def test_an_accuracy_without_errors_is_not_called_certain(
    world: World, evaluation: Document
) -> None:
    """The rings are labelled by the same rule, so the bootstrap has no width."""
    stored = evaluation["result"]["accuracy"]
    assert stored["low"] == stored["high"] == 1.0
    accuracy = content(world, evaluation["id"])["figures"][0]
    assert (accuracy["value"], accuracy["high"]) == (1.0, 1.0)
    assert 0.7 < accuracy["low"] < 0.8


def test_slices_follow_from_the_rows(world: World, evaluation: Document) -> None:
    rows = world.rows(evaluation["id"], explainer="search")["items"]
    figures = content(world, evaluation["id"])["figures"]
    for number in (0, 1):
        mine = [row for row in rows if row["predicted_class"] == number]
        [share] = [
            one
            for one in figures
            if (one["figure"], one["explainer"], one["slice"])
            == ("validity", "search", f"predicted “class {number}”")
        ]
        assert share["count"] == len(mine)
        assert share["value"] == sum(row["found"] for row in mine) / len(mine)
        assert share["low"] < share["value"] < share["high"] or share["value"] in (0, 1)
    sizes = [one for one in figures if (one["slice"] or "").startswith("graphs with")]
    assert sum(o["count"] for o in sizes if o["figure"] == "accuracy") == len(rows)


def test_examples_follow_their_rule(world: World, evaluation: Document) -> None:
    rows = world.rows(evaluation["id"], explainer="search")["items"]
    section = content(world, evaluation["id"])["sections"][2]
    pictures = [block for block in section["blocks"] if block["kind"] == "picture"]
    [missing] = [p for p in pictures if p["title"].startswith("search: no change found")]
    first = next(row for row in rows if not row["found"])
    assert f"(test graph {first['graph']}, counted from 0)" in missing["title"]
    [typical] = [p for p in pictures if p["title"].startswith("search: a typical change")]
    edits = sorted(row["edits"] for row in rows if row["found"])
    median = edits[(len(edits) - 1) // 2]
    chosen = next(row for row in rows if row["edits"] == median)
    assert f"(test graph {chosen['graph']}, counted from 0)" in typical["title"]
    assert f"(probability {chosen['probability']:.2f})" in typical["text"]
    assert f"(probability {chosen['new_probability']:.2f})" in typical["text"]


def test_a_purpose_is_stated_by_somebody_or_by_nobody(world: World, evaluation: Document) -> None:
    def said(**query: Any) -> str:
        return text_of(content(world, evaluation["id"], **query)["sections"][0])

    assert "Nobody stated what the GNN is for." in said()
    asked = "to sort <b>rings</b>"
    assert f"{asked} (Stated by whoever asked for this report; nobody checked it.)" in said(
        purpose=asked
    )
    assert "<b>rings" not in report(world, evaluation["id"], purpose=asked).text
    path = f"/v1/gnns/{world.gnn}"
    noted = {"metadata": {"intended_purpose": "ring counting"}}
    assert world.api.client.patch(path, json=noted).status_code == 200
    assert "ring counting (Stated in the metadata intended_purpose of the GNN" in said()
    noted = {"metadata": {"intended_purpose": "rings of tests"}}
    at = f"/v1/evaluations/{evaluation['id']}"
    assert world.api.client.patch(at, json=noted).status_code == 200
    assert "rings of tests (Stated in the metadata intended_purpose of the evaluation" in said()
    for changed in (path, at):
        world.api.client.patch(changed, json={"metadata": {"intended_purpose": None}})


def test_a_repeated_evaluation_counts_as_a_replay(world: World) -> None:
    first = world.evaluated(count=4, seed=21)
    assert "Not replayed" in text_of(content(world, first["id"])["sections"][8])
    second = world.evaluated(count=4, seed=21)
    said = text_of(content(world, first["id"])["sections"][8])
    assert f"Repeated by {second['id']}: the rows have the same SHA-256." in said


def test_retention_and_holds_are_told(world: World, evaluation: Document) -> None:
    client, id_ = world.api.client, evaluation["id"]
    assert "kept until somebody deletes it" in text_of(content(world, id_)["sections"][9])
    assert client.put("/v1/retention", json={"explanations": 90}).status_code == 200
    client.put(f"/v1/evaluations/{id_}/hold", json={"reason": "audit 7"})
    said = text_of(content(world, id_)["sections"][9])
    assert "deleted 90 days after the request" in said
    assert "(audit 7)" in said
    client.delete(f"/v1/evaluations/{id_}/hold")
    client.put("/v1/retention", json={})


def test_the_csv_has_all_figures(world: World, evaluation: Document) -> None:
    table = list(csv.DictReader(io.StringIO(report(world, evaluation["id"], format="csv").text)))
    figures = content(world, evaluation["id"])["figures"]
    assert [row["figure"] for row in table] == [one["figure"] for one in figures]
    assert [row["value"] for row in table] == [
        "" if one["value"] is None else str(one["value"]) for one in figures
    ]


def test_the_pdf_has_the_text_of_the_page(world: World, evaluation: Document) -> None:
    answer = report(world, evaluation["id"], format="pdf", purpose="for 環 rings")
    assert answer.headers["Content-Type"] == "application/pdf"
    assert answer.content.startswith(b"%PDF-")
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", answer.content, re.DOTALL)
    text = b"".join(zlib.decompress(stream) for stream in streams if stream[:1] == b"\x78")
    for title in TITLES:
        assert title.encode() in text, title
    assert b"for ? rings" in text
    assert b"1 characters that the fonts of this PDF lack" in text


def test_without_its_library_a_pdf_says_what_to_install(
    world: World, evaluation: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fpdf", None)
    answer = world.api.client.get(f"/v1/evaluations/{evaluation['id']}/report?format=pdf")
    assert answer.status_code == 501
    assert "pip install 'd4explain[pdf]'" in answer.json()["detail"]


def test_the_model_card_is_valid_cyclonedx(world: World, evaluation: Document) -> None:
    answer = report(world, evaluation["id"], format="cyclonedx", purpose="rings")
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(answer.text) is None
    card = answer.json()
    [model] = [one for one in card["components"] if one["type"] == "machine-learning-model"]
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    shown = [one for one in content(world, evaluation["id"])["figures"] if one["value"] is not None]
    assert [float(one["value"]) for one in metrics] == [one["value"] for one in shown]
    assert metrics[0]["confidenceInterval"]["upperBound"] == "1.0"
    assert model["modelCard"]["considerations"]["useCases"] == ["rings"]
    assert model["hashes"][0]["content"] == evaluation["result"]["receipt"]["gnn_sha256"]
    metrics[0]["value"] = 1  # not a text
    assert validator.validate_str(json.dumps(card)) is not None


def test_a_report_may_include_a_comparison_of_this_evaluation(
    world: World, evaluation: Document
) -> None:
    client, id_ = world.api.client, evaluation["id"]
    body = {
        "baseline": id_,
        "candidate": id_,
        "explainer": "search",
        "candidate_explainer": "greedy",
    }
    compared = client.post("/v1/comparisons", json=body).json()["id"]
    early = client.get(f"/v1/evaluations/{id_}/report?comparison={compared}")
    assert (early.status_code, "no result yet" in early.text) == (409, True)
    world.api.work()
    section = content(world, id_, comparison=compared)["sections"][6]
    assert section["title"] == "Comparison of versions"
    assert compared in text_of(section)
    other = world.evaluated(count=3, seed=5)["id"]
    refused = client.get(f"/v1/evaluations/{other}/report?comparison={compared}")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["parameter"] == "comparison"
    assert client.get(f"/v1/evaluations/{id_}/report?comparison=cmp_no").status_code == 404


def test_there_is_no_report_before_the_figures(world: World) -> None:
    posted = world.posted(count=3, seed=31)
    client, at = world.api.client, f"/v1/evaluations/{posted['id']}"
    assert client.get(f"{at}/report").status_code == 409
    assert client.get(f"{at}/result").status_code == 409
    assert client.post(f"{at}/test-result", json=GATE).status_code == 409
    client.post(f"/v1/jobs/{posted['job']['id']}/cancel")


Signing = tuple[World, Document, Any]


@pytest.fixture
def signing(world: World, evaluation: Document, keys: Any) -> Signing:
    return world, evaluation, keys


def signed(world: World, id_: str, gate: Document) -> bytes:
    answer = world.api.client.post(f"/v1/evaluations/{id_}/test-result", json=gate)
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


def test_a_signed_test_result_is_verified_offline(
    world: World, evaluation: Document, keys: Any
) -> None:
    stored = world.api.client.get(f"/v1/evaluations/{evaluation['id']}/result").content
    said, found = verify_test_result(signed(world, evaluation["id"], GATE), keys, stored)
    assert said.type == "https://in-toto.io/Statement/v1"
    assert (said.name, said.sha256) == (
        evaluation["gnn"],
        evaluation["result"]["receipt"]["gnn_sha256"],
    )
    assert (found.result, len(found.passedTests), found.failedTests) == ("PASSED", 2, [])
    again = signed(world, evaluation["id"], GATE)
    assert again == signed(world, evaluation["id"], GATE)
    with pytest.raises(VerificationError, match="the test result is about"):
        verify_test_result(again, keys, stored + b" ")


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({"max": -1}, "FAILED", "> max -1"),
        ({"figure": "stability", "min": 0}, "FAILED", "stability of search was not measured"),
        ({"min": "value"}, "WARNED", "but its interval reaches beyond"),
    ],
)
def test_the_result_means_what_the_thresholds_say(
    signing: Signing, change: Document, outcome: str, words: str
) -> None:
    world, evaluation, keys = signing
    [search, _] = evaluation["result"]["explainers"]
    if change.get("min") == "value":
        change = {"min": search["validity"]["value"]}
    gate = {"threshold": [{"figure": "validity", "explainer": "search", **change}]}
    _, found = verify_test_result(signed(world, evaluation["id"], gate), keys)
    assert found.result == outcome
    assert words in " ".join([*found.warnedTests, *found.failedTests])


def test_nobody_can_turn_failed_into_passed(world: World, evaluation: Document, keys: Any) -> None:
    gate = {"threshold": [{"figure": "validity", "explainer": "search", "max": -1}]}
    envelope = json.loads(signed(world, evaluation["id"], gate))
    payload = base64.b64decode(envelope["payload"])
    for old, new in (
        (b'"FAILED"', b'"PASSED"'),
        (b"failedTests", b"passedTests"),
        (evaluation["gnn"].encode(), b"gnn_other"),
    ):
        forged = base64.b64encode(payload.replace(old, new)).decode()
        with pytest.raises(VerificationError, match="signature does not fit"):
            verify_test_result(json.dumps({**envelope, "payload": forged}).encode(), keys)


@pytest.mark.parametrize(
    ("gate", "pointer"),
    [
        ({}, ""),
        ({"threshold": [{"figure": "validity"}]}, "/threshold/0"),
        ({"threshold": [], "comparison": {}}, "/comparison/id"),
        ({**GATE, "evaluation": {"id": "evl_other"}}, "/evaluation/id"),
        ({"threshold": [{"figure": "validity", "explainer": "d4", "min": 0}]}, ""),
    ],
)
def test_a_gate_without_a_threshold_signs_nothing(
    world: World, evaluation: Document, gate: Document, pointer: str
) -> None:
    answer = world.api.client.post(f"/v1/evaluations/{evaluation['id']}/test-result", json=gate)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)
