"""Reports and letters say what the answer says, escape what users sent and load nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import Edit
from service import examples
from service.http.faults import InvalidRequestError
from service.reports.letters import edit_list, percent
from service.reports.pages import Heading, PageKind, letter_document, page
from store.errors import Conflict

NAMES = GnnNames(class_names=("house", "cycle"))
HEADING = Heading("exp_1", "gnn_1", "set_1", "2026-11-18T10:00:00.000Z")


def result(**changes: Any) -> bytes:
    """The example's result with changes of its first counterfactual."""
    document = deepcopy(examples.EXPLANATION["result"])
    document["answers"][0]["counterfactuals"][0].update(changes)
    return json.dumps(document).encode()


def without_counterfactuals() -> bytes:
    document = deepcopy(examples.EXPLANATION["result"])
    answer = document["answers"][0]
    answer.update(found=False, counterfactuals=[], minimal=[], reason="The budget is spent.")
    return json.dumps(document).encode()


def written(kind: PageKind, content: bytes, names: GnnNames = NAMES) -> str:
    return page(kind, content, HEADING, names)


class Elements(HTMLParser):
    """All elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_names_of_node_types_keep_their_case() -> None:
    edit = {"action": "remove", "source": 0, "target": 1, "source_type": "C", "target_type": "Cl",
            "plausibility": None, "proposed_by": "search"}  # fmt: skip
    found = letter_document(result(edits=[edit]), 0, 0, NAMES)
    assert found.change.startswith("Without the connection between 0 (C) and 1 (Cl), it would")


def test_a_letter_says_what_was_decided_and_what_would_have_changed_it() -> None:
    found = letter_document(result(), 0, 0, NAMES)
    assert found.decision.startswith("The model said “house” (with")
    assert found.change.startswith("Without the connection between b and roof, it would have said")
    assert "“cycle”" in found.change
    assert found.agreement.startswith("4 of 5 other models")


def test_a_brittle_answer_is_called_what_it_is() -> None:
    transfers = {"shared": 1, "agreeing": 5, "asked": 5}
    found = letter_document(result(verdict="brittle", transfers=transfers), 0, 0, NAMES)
    assert found.agreement.startswith("Only 1 of 5")
    assert "more about this model" in found.agreement


def test_an_unjudged_answer_claims_no_agreement() -> None:
    found = letter_document(result(verdict="unjudged", transfers=None), 0, 0, NAMES)
    assert found.agreement.startswith("No other model judged")


def test_a_letter_gives_no_reason_in_the_words_of_the_service() -> None:
    """The report does: the person concerned knows no witnesses and no ids."""
    document = json.loads(result(verdict="unjudged", transfers=None))
    document["unjudged_reason"] = "witnesses need 100 reference graphs; set_1 has 12"
    content = json.dumps(document).encode()
    assert letter_document(content, 0, 0, NAMES).agreement == "No other model judged this change."
    assert "set_1 has 12" not in written(PageKind.LETTER, content)
    assert "Witnesses need 100 reference graphs; set_1 has 12." in written(PageKind.REPORT, content)


@given(st.floats(0, 1))
def test_only_certainty_is_called_100_percent(probability: float) -> None:
    assert (percent(probability) == "100 %") == (probability == 1)


def test_limits_name_the_constraints_of_the_request() -> None:
    document = json.loads(result())
    constraints = {"max_edits": 1, "actions": "remove", "keep_connected": True}
    document["receipt"]["config"]["constraints"] = constraints
    limits = letter_document(json.dumps(document).encode(), 0, 0, NAMES).limits
    assert limits[2:5] == [
        "At most 1 change was allowed.",
        "Connections could only be removed.",
        "The graph had to stay in one piece.",
    ]


def test_a_letter_without_an_answer_gives_the_reason() -> None:
    found = letter_document(without_counterfactuals(), 0, 0, NAMES)
    assert found.change == "No change was found that alters this answer. The budget is spent."
    for kind in PageKind:
        assert "The budget is spent." in written(kind, without_counterfactuals())


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 99), st.integers(0, 99)),
        min_size=1,
        max_size=8,
    )
)
def test_every_edit_is_named_once(pairs: list[tuple[Any, int, int]]) -> None:
    edits = [
        Edit(action=action, source=one, target=other, plausibility=None, proposed_by="search")
        for action, one, other in pairs
    ]
    text = edit_list(edits)
    assert text.count("between") == len(edits)
    assert ("without" in text) == any(action == "remove" for action, _, _ in pairs)


@pytest.mark.parametrize("kind", PageKind)
def test_pages_escape_names_and_ids_and_load_nothing(kind: PageKind) -> None:
    evil = "<script>alert(1)</script>"
    document = json.loads(result())
    answer = document["answers"][0]
    for graph in (answer["graph"], answer["counterfactuals"][0]["graph"]):
        for node in graph["nodes"]:
            node["id"] = evil if node["id"] == "roof" else node["id"]
        for edge in graph["edges"]:
            for end in ("source", "target"):
                edge[end] = evil if edge[end] == "roof" else edge[end]
    for edit in answer["counterfactuals"][0]["edits"]:
        edit["target"] = evil if edit["target"] == "roof" else edit["target"]
    document["warnings"] = [evil]
    text = written(kind, json.dumps(document).encode(), GnnNames(class_names=(evil, evil)))
    elements = Elements(text).found
    assert "script" not in {tag for tag, _ in elements}
    for tag, attributes in elements:
        assert tag not in {"link", "img", "iframe", "object", "form"}
        assert not {"src", "href", "onload", "onclick"} & set(attributes)
    assert "@import" not in text
    assert "url(" not in text


def test_a_report_has_the_figures_of_the_answer_and_its_receipt() -> None:
    text = written(PageKind.REPORT, result())
    document = json.loads(result())
    chosen = document["answers"][0]["counterfactuals"][0]
    assert f"{chosen['modification_ratio']:.3f}" in text
    assert f"{chosen['prediction']['probabilities'][1]:.4f}" in text
    assert document["receipt"]["gnn_sha256"] in text
    assert "meaningful" in text
    assert "Reviewed by" in text


def test_indices_beyond_the_result_are_refused() -> None:
    for graph, alternative in ((9, 0), (0, 9)):
        with pytest.raises(InvalidRequestError):
            letter_document(result(), graph, alternative, NAMES)
    with pytest.raises(InvalidRequestError):
        letter_document(without_counterfactuals(), 0, 1, NAMES)


def test_class_explanations_have_no_letter() -> None:
    content = json.dumps(examples.CLASS_EXPLANATION["result"]).encode()
    with pytest.raises(Conflict, match="counterfactuals"):
        letter_document(content, 0, 0, NAMES)


def class_result(**changes: Any) -> bytes:
    document = deepcopy(examples.CLASS_EXPLANATION["result"])
    document.update(changes)
    return json.dumps(document).encode()


def test_the_report_of_a_class_has_every_pattern_with_its_figures() -> None:
    document = json.loads(class_result())
    text = written(PageKind.REPORT, class_result())
    assert text.count("<svg") == len(document["examples"])
    for example in document["examples"]:
        assert f"{example['effect']['mean']:+.2f}" in text
        assert f"{100 * example['support']['in_class']:.0f} %" in text
    assert document["receipt"]["gnn_sha256"] in text
    assert f"“{NAMES.class_name(document['target_class'])}”" in text


def test_a_class_without_patterns_says_why() -> None:
    content = class_result(examples=[], reason="No pattern is convincing.", mmd=None)
    for kind in (PageKind.REPORT, PageKind.EMBED):
        assert "No pattern is convincing." in written(kind, content)


def test_an_embedded_class_shows_one_pattern() -> None:
    assert written(PageKind.EMBED, class_result()).count("<svg") == 1
    with pytest.raises(InvalidRequestError, match="patterns"):
        page(PageKind.EMBED, class_result(), HEADING, NAMES, graph=99)


def test_pages_of_a_class_escape_what_users_sent() -> None:
    evil = "<script>alert(1)</script>"
    for kind in (PageKind.REPORT, PageKind.EMBED):
        text = written(kind, class_result(warnings=[evil]), GnnNames(class_names=(evil, evil)))
        assert "script" not in {tag for tag, _ in Elements(text).found}
