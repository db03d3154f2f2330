"""Measure how fast the dashboard's pages are with 10,000 explanations in the store.

Chromium opens each page, and a what-if question is asked again and again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import networkx as nx
from playwright.sync_api import Browser, Page, Response, sync_playwright
from rich.console import Console

from bench.gnns.example_gnn import run as make_gnn
from bench.gnns.training import Training
from bench.progress import OnProgress
from bench.speed.api.filled_store import copy_explanations
from bench.speed.section import Figures, Section, Table
from d4explain.client.client import Client
from d4explain.client.options import CounterfactualOptions
from d4explain.client.resources import Explanation
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.stack.embedded import embedded_stack
from store.settings import Settings
from store.store import Store

EXPLANATIONS, _SHORT_EXPLANATIONS = 10_000, 500
_VISITS, _SHORT_VISITS = 10, 2
_WHAT_IFS, _SHORT_WHAT_IFS = 200, 20
_LARGE_NODES = 500
_SEARCH: CounterfactualOptions = {
    "explainer": "search",
    "aim": "minimal",
    "judges": "none",
    "preset": "fast",
}
_TIMEOUT_MS = 20_000
# The last moment at which something new was painted that is larger than all before.
_LARGEST_PAINT = """() => new Promise(resolve => new PerformanceObserver(
  list => resolve(list.getEntries().at(-1).startTime)
).observe({type: 'largest-contentful-paint', buffered: true}))"""


@dataclass(frozen=True)
class PageFigures(Figures):
    page_explanations: float  # in the store
    page_server_ms: float  # of the slowest request of all pages, median over visits
    page_paint_ms: float  # until the content of the slowest page is painted, median over visits
    large_drawing_ms: float  # from opening the viewer of 500 nodes until all are drawn, median
    what_if_p50_ms: float
    what_if_p95_ms: float


@dataclass(frozen=True)
class Visit:
    """One page opened in a new browser context, without a cache."""

    server_ms: float  # of the slowest request
    slowest: str  # its path
    paint_ms: float
    drawn_ms: float | None  # until the nodes of the large graph are drawn


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[PageFigures]:
    count = _SHORT_EXPLANATIONS if short else EXPLANATIONS
    visits = _SHORT_VISITS if short else _VISITS
    with TemporaryDirectory(prefix="d4-bench-") as temporary:
        folder, data = Path(temporary), Path(temporary) / "data"
        make_gnn(
            folder / "gnn",
            graphs=300,
            test=8,
            seed=seed,
            training=Training(epochs=10, seconds=60.0),
            console=Console(quiet=True),
        )
        with embedded_stack(data, folder / "stack.log") as url, Client(url) as client:
            on_progress("asking and filling the store", 0, 1)
            paths, explanation = _filled(client, folder / "gnn", data, count, seed)
            latencies = _what_ifs(
                client, explanation, _SHORT_WHAT_IFS if short else _WHAT_IFS, on_progress
            )
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=_chromium(), args=["--no-sandbox"]
                )
                seen = {
                    name: [_visit(browser, url + path) for _ in range(visits + 1)][1:]
                    for name, path in _announced(paths, on_progress)
                }
                browser.close()
    return _section(count, seen, latencies)


def _section(
    count: int, seen: Mapping[str, Sequence[Visit]], latencies: Sequence[float]
) -> Section[PageFigures]:
    server = {name: median(visit.server_ms for visit in some) for name, some in seen.items()}
    paint = {name: median(visit.paint_ms for visit in some) for name, some in seen.items()}
    drawn = [visit.drawn_ms for some in seen.values() for visit in some if visit.drawn_ms]
    rows = tuple(
        (
            name,
            server[name],
            max(some, key=lambda visit: visit.server_ms).slowest,
            paint[name],
            max(visit.paint_ms for visit in some),
        )
        for name, some in seen.items()
    )
    return Section(
        PageFigures(
            page_explanations=count,
            page_server_ms=max(server.values()),
            page_paint_ms=max(paint.values()),
            large_drawing_ms=median(drawn),
            what_if_p50_ms=median(latencies),
            what_if_p95_ms=quantiles(latencies, n=20)[-1],
        ),
        (
            Table(
                f"pages with {count:,} explanations, median",
                ("page", "server ms", "slowest request", "painted ms", "painted ms, worst visit"),
                rows,
            ),
        ),
    )


def _filled(
    client: Client, folder: Path, data: Path, count: int, seed: int
) -> tuple[dict[str, str], Explanation]:
    """Paths of all pages, and an explanation to ask about."""
    gnn = client.register_gnn("motifs", folder / "spec.json", folder / "weights.safetensors")
    dataset = client.create_dataset(
        "motifs", json.loads((folder / "reference.json").read_text())["graphs"]
    )
    graphs = json.loads((folder / "heldout.json").read_text())["graphs"]
    asked = [client.explain_counterfactual(gnn, dataset, [graph], **_SEARCH) for graph in graphs]
    budget: CounterfactualOptions = {**_SEARCH, "time_budget": 5.0}
    large = client.explain_counterfactual(gnn, dataset, [_large_graph(seed)], **budget)
    ended = [client.explanation(one.id) for one in asked if client.result(one)]
    client.result(large)
    gallery = client.explain_class(gnn, dataset, 0, explainer="mined")
    client.result(gallery)
    test = client.create_dataset("motifs-test", graphs)
    evaluation = client.evaluate(gnn, dataset, test, explainers=["search", "greedy"], metrics=[])
    client.wait_for_evaluation(evaluation.id)
    with Store.open(Settings(data_dir=data), migrate=False) as store:
        copy_explanations(store, [one.id for one in ended], count, seed)
    paths = {
        "overview": "/",
        "GNNs": "/gnns",
        "GNN": f"/gnns/{gnn.id}",
        "explanations": "/explanations",
        "job": f"/jobs/{ended[0].job.id}",
        "ask": "/ask",
        "settings": "/settings",
        "viewer": f"/explanations/{ended[0].id}",
        f"viewer, {_LARGE_NODES} nodes": f"/explanations/{large.id}",
        "class gallery": f"/explanations/{gallery.id}",
        "evaluations": "/evaluations",
        "evaluation": f"/evaluations/{evaluation.id}",
    }
    return paths, ended[0]


def _large_graph(seed: int) -> nx.Graph:
    graph = nx.barabasi_albert_graph(_LARGE_NODES, 2, seed=seed)
    nx.set_node_attributes(graph, [1.0], "x")
    return graph


def _what_ifs(
    client: Client, explanation: Explanation, count: int, on_progress: OnProgress
) -> list[float]:
    """Milliseconds of questions about toggled pairs, one after the other."""
    assert isinstance(explanation.result, CounterfactualResult)
    nodes = [node.id for node in explanation.result.answers[0].graph.nodes]
    client.what_if(explanation.id, [])  # the worker loads the GNN once
    milliseconds = []
    for number in range(count):
        on_progress("what-if questions", number, count)
        other = nodes[1 + number % (len(nodes) - 1)]
        started = time.perf_counter()
        client.what_if(explanation.id, [(nodes[0], other)])
        milliseconds.append(1000 * (time.perf_counter() - started))
    return milliseconds


def _announced(paths: Mapping[str, str], on_progress: OnProgress) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(paths.items()):
        on_progress("pages", number, len(paths))
        yield item


def _visit(browser: Browser, address: str) -> Visit:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    answers: list[Response] = []

    def keep(answer: Response) -> None:
        answers.append(answer)

    page.on("response", keep)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    is_large = page.locator(".stage .node").count() == _LARGE_NODES
    drawn = _drawn_ms(context.new_page(), address) if is_large else None
    paint = float(page.evaluate(_LARGEST_PAINT))
    times = {
        answer.url: answer.request.timing["responseStart"] - answer.request.timing["requestStart"]
        for answer in answers
        if "/events" not in answer.url
    }
    context.close()
    slowest = max(times, key=lambda url: times[url])
    path = slowest.removeprefix(address[: address.index("/", 8)])
    return Visit(times[slowest], path, paint, drawn)


def _drawn_ms(page: Page, address: str) -> float:
    """Milliseconds from opening the page until all nodes are drawn."""
    script = f"""() => new Promise(resolve => {{
      const check = () => document.querySelectorAll('.stage .node').length >= {_LARGE_NODES}
        ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))
        : requestAnimationFrame(check);
      check();
    }})"""
    page.goto(address, wait_until="commit", timeout=_TIMEOUT_MS)
    return float(page.evaluate(script))


def _chromium() -> str:
    found = os.environ.get("D4_TEST_CHROMIUM") or shutil.which("chromium")
    if found is None:
        raise RuntimeError("there is no `chromium` on PATH and D4_TEST_CHROMIUM is not set")
    return found
