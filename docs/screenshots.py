"""Makes the pictures of the dashboard in docs/images: `make screenshots`.

Starts a deployment, trains an example GNN, asks two questions and runs an evaluation, which takes
some minutes. With `--url` it uses the newest answers of a running deployment instead.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

from bench.gnns.example_gnn import run as make_gnn
from bench.gnns.training import Training
from d4explain.client.client import Client
from d4explain.client.resources import Explanation
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.stack.embedded import embedded_stack

IMAGES = Path(__file__).parent / "images"
_COLOURS = 256  # of a picture; the pages have few
_WAIT_MS = 60_000
_DENOISER = {"steps": 100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a running deployment with answers of both kinds")
    parser.add_argument(
        "--evaluation", action="store_true", help="only the picture of an evaluation"
    )
    options = parser.parse_args()
    with _deployment(options.url) as url, Client(url) as client, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 860})
        if not options.evaluation:
            _show_explanations(page, url, client)
        _show_evaluation(page, url, client)
        browser.close()


def _show_explanations(page: Page, url: str, client: Client) -> None:
    question = _telling(client)
    classes = next(one for one in client.explanations(kind="class") if _ended(one))
    trainings = client.jobs(gnn=question.gnn)
    training = next(job for job in trainings if job.kind == "train" and job.finished_at)
    page.goto(f"{url}/explanations/{question.id}")
    page.get_by_text("they share").wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-viewer", height=1010)
    page.goto(f"{url}/explanations/{classes.id}")
    page.locator(".film li").first.wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-class", height=1130)
    page.goto(url)
    page.get_by_text("Recent explanations").wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-overview")
    page.goto(f"{url}/jobs/{training.id}")
    page.get_by_role("row", name="succeeded").wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-job", height=600)
    page.goto(f"{url}/ask?gnn={question.gnn}")
    page.get_by_role("button", name="2. ").first.click()
    page.get_by_role("button", name="Freeze node").click(timeout=_WAIT_MS)
    page.get_by_role("button", name="Freeze edge").click()
    page.get_by_text("of work").wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-ask", height=1250)


def _show_evaluation(page: Page, url: str, client: Client) -> None:
    evaluation = next(one for one in client.evaluations() if one.state == "succeeded")
    page.goto(f"{url}/evaluations/{evaluation.id}")
    page.get_by_role("heading", name="Figures", exact=True).wait_for(timeout=_WAIT_MS)
    _save(page, "dashboard-evaluation", height=1000)


@contextmanager
def _deployment(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        quiet = Console(quiet=True)
        make_gnn(folder / "gnn", graphs=600, test=12, seed=0, training=Training(), console=quiet)
        with (
            embedded_stack(folder / "data", folder / "stack.log") as started,
            Client(started) as client,
        ):
            _ask(client, folder / "gnn")
            yield started


def _ask(client: Client, folder: Path) -> None:
    """Questions about single graphs, one about a class, and an evaluation."""
    gnn = client.register_gnn("motifs", folder / "spec.json", folder / "weights.safetensors")
    reference = json.loads((folder / "reference.json").read_text())["graphs"]
    dataset = client.create_dataset("motifs", reference)
    graphs = json.loads((folder / "heldout.json").read_text())["graphs"]
    asked = [
        *(
            client.explain_counterfactual(gnn, dataset, [graph], denoiser=_DENOISER)
            for graph in graphs
        ),
        client.explain_class(gnn, dataset, 1, denoiser=_DENOISER),
    ]
    for explanation in asked:
        client.result(explanation)
    evaluation = client.evaluate(
        gnn,
        dataset,
        {"held_out": 0.2},
        explainers=["search", "greedy", "gradcam"],
        metrics=["transfer", "mmd", "robustness"],
        count=40,
    )
    client.wait_for_evaluation(evaluation.id)


def _telling(client: Client) -> Explanation:
    """An answer that adds and removes edges and is meaningful, or the newest one."""
    ended = [one for one in client.explanations(kind="counterfactual") if _ended(one)]
    for one in ended:
        result = client.explanation(one.id).result
        assert isinstance(result, CounterfactualResult)
        best = (result.answers[0].counterfactuals or result.answers[0].minimal)[0]
        actions = {edit.action for edit in best.edits}
        if best.verdict == "meaningful" and len(actions) == 2:
            return one
    return ended[0]


def _ended(explanation: Explanation) -> bool:
    return explanation.state == "succeeded" and explanation.denoiser is not None


def _save(page: Page, name: str, height: int = 860) -> None:
    """The top of the page as PNG with few colours: a tenth of the size."""
    page.set_viewport_size({"width": 1200, "height": height})
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1000)  # drawings load one after the other
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(_COLOURS)
    picture.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size:,} bytes")


def _chromium() -> str:
    found = os.environ.get("D4_TEST_CHROMIUM") or shutil.which("chromium")
    if found is None:
        raise SystemExit("there is no `chromium` on PATH and D4_TEST_CHROMIUM is not set")
    return found


if __name__ == "__main__":
    main()
