"""What the viewer shows besides the edits: evidence, large graphs, molecules, permalinks."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect
from safetensors.numpy import load, save

from d4explain.contracts.counterfactual_results import CounterfactualResult
from service import examples
from tests.browser.conftest import answered, ring
from tests.browser.test_journeys import SLOW
from tests.processes import EdgeCounter
from tests.unit.flows.test_molecules import SPEC, bond_counter

KITE = {"nodes": ring(5)["nodes"], "edges": [*ring(4)["edges"], {"source": 0, "target": 4}]}


def registered(address: str, name: str, spec: dict[str, Any], weights: bytes) -> str:
    """The id of a GNN after its probe."""
    files = {"spec": ("spec.json", json.dumps(spec)), "weights": ("weights.safetensors", weights)}
    posted = httpx.post(
        f"{address}/v1/gnns",
        data={"name": name},
        files=files,
        headers={"Prefer": "wait=60"},
        timeout=90,
    )
    assert posted.status_code == 201, posted.text
    assert posted.json()["state"] == "ready", posted.text
    return str(posted.json()["id"])


@pytest.mark.parametrize(
    ("shared", "verdict", "said"),
    [
        (4, "meaningful", "probably show what separates the classes"),
        (1, "brittle", "a weakness of this GNN"),
    ],
)
def test_evidence_is_a_plot_and_a_sentence_each(
    page: Page, address: str, explanation: str, *, shared: int, verdict: str, said: str
) -> None:
    """Of an answer with all figures, which a real search would need many graphs for."""
    document = httpx.get(f"{address}/v1/explanations/{explanation}").json()
    example = CounterfactualResult.model_validate(examples.EXPLANATION["result"])
    result = example.model_dump(mode="json")
    best = result["answers"][0]["counterfactuals"][0]
    best |= {"verdict": verdict, "transfers": {**best["transfers"], "shared": shared}}
    result["mmd"] |= {"graph_count": 20}
    document["result"] = result

    def answer(route: Route) -> None:
        route.fulfill(json=document)

    page.route(f"**/v1/explanations/{explanation}", answer)
    page.goto(f"{address}/explanations/{explanation}")
    expect(page.get_by_text(said)).to_be_visible(timeout=SLOW)
    agreeing = best["transfers"]["agreeing"]
    card = page.locator("section", has=page.get_by_role("heading", name="Do other networks agree?"))
    expect(card).to_contain_text(f"{shared} of {agreeing} judges")
    expect(card.locator(".judge.shares")).to_have_count(shared)
    typicality = page.locator("section", has=page.get_by_role("heading", name="Typicality"))
    calibrated = best["typicality"]["calibration_graphs"]
    for name in ("The original", "The answer"):
        sentence = typicality.get_by_text(f"{name} is at least as likely as")
        expect(sentence).to_contain_text(f"of {calibrated} held-out graphs")
    expect(typicality.get_by_role("img")).to_have_count(2)
    mmd = page.locator("section", has=page.get_by_role("heading", name="MMD against its null"))
    high = result["mmd"]["null_quantiles"]["0.95"]
    expect(mmd.get_by_role("img")).to_have_count(1)
    farther = "are farther" if result["mmd"]["sum"] > high else "are no farther"
    expect(mmd).to_contain_text(f"The 20 answers {farther}")
    expect(mmd).to_contain_text(f"MMD {result['mmd']['sum']:.3f}, null")


def test_a_permalink_opens_the_chosen_alternative(page: Page, address: str) -> None:
    page.goto(f"{address}/explanations/{answered(address, KITE)}")
    page.get_by_role("radio").nth(1).check()
    edits = page.get_by_role("region", name="Edits")
    chosen = edits.inner_text()
    page.get_by_role("radio").nth(0).check()
    assert edits.inner_text() != chosen
    page.get_by_role("radio").nth(1).check()
    page.goto(page.url)
    expect(page.get_by_role("radio").nth(1)).to_be_checked()
    assert edits.inner_text() == chosen


def test_clicks_in_the_drawing_toggle_and_freeze(
    page: Page, address: str, explanation: str
) -> None:
    page.goto(f"{address}/explanations/{explanation}")
    stage = page.locator(".stage")
    added = stage.locator("line.edge.added")
    expect(added).to_have_count(1, timeout=SLOW)
    stage.get_by_text("added edge").locator("xpath=..").locator("line.hit").click(force=True)
    expect(added).to_have_count(0)
    expect(page.get_by_text("the class of the original graph")).to_be_visible(timeout=SLOW)
    for node in ("0", "2"):
        stage.locator("g.clickable", has=page.get_by_text(node, exact=True)).click()
    expect(added).to_have_count(1)
    expect(page.get_by_text("still another class than before")).to_be_visible(timeout=SLOW)
    page.get_by_label("clicks in the drawing freeze").check()
    stage.locator("g.clickable", has=page.get_by_text("3", exact=True)).click()
    expect(page.get_by_text("Frozen: node 3.")).to_be_visible()
    expect(stage.locator("circle.node.frozen")).to_have_count(1)


def test_of_a_larger_graph_the_viewer_draws_the_surroundings_of_the_edits(
    page: Page, address: str
) -> None:
    """A ring with 600 nodes, and a GNN that one edge more convinces."""
    weights = load(EdgeCounter.make().weights)
    weights["layers.2.linear.weight"] /= 200  # else the probe's small graphs all get 1 and 0
    bias = -(600 + 2 * 600.5) / 200
    weights["layers.2.linear.bias"] = np.array([0.0, bias], dtype=np.float32)
    gnn = registered(address, "many", EdgeCounter.make().spec, bytes(save(weights)))
    page.goto(f"{address}/explanations/{answered(address, ring(600), gnn=gnn)}")
    expect(page.get_by_text("The graph has 600 nodes")).to_contain_text("around the edits")
    stage = page.locator(".stage")
    expect(stage.locator("line.edge.added")).to_have_count(1)
    count = stage.locator("circle.node").count()
    assert 2 < count <= 200 + 1


def test_a_molecule_is_asked_by_smiles_and_drawn_as_a_molecule(page: Page, address: str) -> None:
    """One bond more and the GNN says "many"; the molecule is ethylbenzene."""
    gnn = registered(address, "bonds", SPEC, bond_counter(25.5))
    graphs = [{"smiles": text} for text in ("CCO", "c1ccccc1", "CC(C)N", "c1ccccc1CCN")]
    stored = httpx.post(
        f"{address}/v1/datasets", json={"name": "molecules", "gnn": gnn, "graphs": graphs}
    )
    assert stored.status_code == 201, stored.text
    page.goto(f"{address}/ask?gnn={gnn}")
    expect(page.get_by_role("button", name="1. CCO")).to_be_visible()
    page.get_by_label("Graph", exact=True).fill("c1ccccc1CC")
    page.get_by_role("button", name="Read the graph").click()
    expect(page.locator("circle.node.carbon")).to_have_count(8)
    expect(page.locator("line.aromatic")).to_have_count(6)
    page.get_by_label("search only").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/explanations/exp_*")
    expect(page.get_by_text("becomes many")).to_be_visible(timeout=SLOW)
    stage = page.locator(".stage")
    expect(stage.locator("circle.node.carbon")).to_have_count(8)
    expect(stage.locator("line.aromatic")).to_have_count(6)
    expect(stage.locator("line.edge.added")).to_have_count(1)
    expect(
        page.get_by_text("valid molecule").or_(page.get_by_text("No valid molecule"))
    ).to_be_visible()
    page.get_by_text("The drawing as a table").click()
    table = page.get_by_role("region", name="Edges of the drawing")
    expect(table.get_by_role("row", name="added")).to_contain_text("(C)")


def test_another_version_answers_beside_the_explained_one(page: Page, address: str) -> None:
    """Version 2 calls five edges many already: the edit changes nothing for it."""
    spec = {**EdgeCounter.make().spec, "class_names": ["few", "many"]}
    later = load(EdgeCounter.make().weights)
    later["layers.2.linear.bias"] = np.array([0.0, -14.0], dtype=np.float32)
    first = registered(address, "versions", spec, EdgeCounter.make().weights)
    registered(address, "versions", spec, bytes(save(later)))
    page.goto(f"{address}/explanations/{answered(address, ring(5), gnn=first)}")
    expect(page.get_by_text("becomes many")).to_be_visible(timeout=SLOW)
    page.get_by_label("Beside another version").select_option(label="versions@2")
    expect(page.get_by_text("versions@2 calls the original many, and the")).to_contain_text(
        "changed graph many, too"
    )
    table = page.get_by_role("table", name="Class probabilities")
    heads = ["class", "before", "answer", "v2, before", "v2, changed"]
    expect(table.get_by_role("columnheader")).to_have_text(heads)
    page.get_by_role("combobox", name="From", exact=True).select_option("0")
    page.get_by_role("combobox", name="To", exact=True).select_option("1")
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Toggle edge").click()  # four edges are left
    expect(page.get_by_text("and the changed graph few")).to_be_visible(timeout=SLOW)
