"""Expensive drawings and large results do not delay other clients of `python -m service`."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import networkx as nx
import psutil
import pytest

from d4explain.contracts.results import ResultEdge, ResultGraph, ResultNode
from d4explain.stack.ports import free_port
from store.settings import Settings
from store.store import Store

pytestmark = pytest.mark.alone

FORMATS = ("svg", "graphml", "cytoscape", "pyg")
MAX_RSS = 700e6


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A running service: its port, its folder and its process."""
    folder = tmp_path_factory.mktemp("drawings")
    port = free_port()
    environment = {
        **os.environ,
        "D4_DATA_DIR": str(folder / "data"),
        "D4_PORT": str(port),
        "D4_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen([sys.executable, "-m", "service"], env=environment, stderr=log) as started,
    ):
        try:
            deadline = time.monotonic() + 60
            while fetch(port, "/livez").status != 200:
                assert started.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield port, folder, psutil.Process(started.pid)
        finally:
            started.kill()


class Answer:
    def __init__(self, status, body, headers, seconds):
        self.status, self.body, self.headers, self.seconds = status, body, headers, seconds


def fetch(port, path, headers=None, timeout=60.0):
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
        except OSError:
            return Answer(0, b"", {}, time.monotonic() - began)
    return Answer(response.status, body, response.headers, time.monotonic() - began)


@contextmanager
def polling(port):
    """Polls /livez and /readyz; yields the response times, which grow meanwhile."""
    seconds = {"/livez": [], "/readyz": []}
    is_over = threading.Event()

    def poll(path):
        while not is_over.is_set():
            answer = fetch(port, path)
            seconds[path].append(answer.seconds if answer.status in (200, 503) else 60.0)
            time.sleep(0.01)

    threads = [threading.Thread(target=poll, args=(path,)) for path in seconds]
    for thread in threads:
        thread.start()
    try:
        yield seconds
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def percentile_99(seconds):
    """The 99th percentile."""
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def graph_of(nodes, edges, seed, features=4):
    pairs = nx.gnm_random_graph(nodes, edges, seed=seed).edges
    one_hot = [[float(i == j) for j in range(features)] for i in range(features)]
    return ResultGraph(
        nodes=[ResultNode(id=i, x=one_hot[i % features]) for i in range(nodes)],
        edges=[ResultEdge(source=source, target=target) for source, target in pairs],
    )


@pytest.fixture
def store_explanation(process, deployment_of):
    """Stores a result with these graphs; returns the path of the explanation."""
    port, folder, _ = process
    with (
        Store.open(Settings(data_dir=folder / "data"), migrate=False) as store,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        api = deployment_of(store, client)

        def explain(graphs):
            base = api.result()
            answer = base.answers[0]
            best = answer.counterfactuals[0]
            answers = [
                answer.model_copy(
                    update={
                        "graph": graph,
                        "counterfactuals": [best.model_copy(update={"graph": graph, "edits": []})],
                    }
                )
                for graph in graphs
            ]
            posted = api.explanation()
            api.finish_explanation(posted, base.model_copy(update={"answers": answers}))
            return f"/v1/explanations/{posted['id']}"

        yield explain


def fetch_all(port, paths, timeout=60.0):
    with ThreadPoolExecutor(len(paths)) as clients:
        return list(clients.map(lambda path: fetch(port, path, timeout=timeout), paths))


def assert_others_were_answered(seconds):
    assert percentile_99(seconds["/livez"]) < 0.2, sorted(seconds["/livez"])[-5:]
    assert percentile_99(seconds["/readyz"]) < 2, sorted(seconds["/readyz"])[-5:]


def test_forty_concurrent_drawings_do_not_delay_other_clients(process, store_explanation):
    port, _, running = process
    address = store_explanation([graph_of(480, 960, seed) for seed in range(40)])
    with polling(port) as seconds:
        answers = fetch_all(port, [f"{address}?format=svg&graph={i}" for i in range(40)])
    assert_others_were_answered(seconds)
    # A slow machine may refuse some requests, but answers all of them soon.
    assert {answer.status for answer in answers} <= {200, 503}
    drawn = [answer for answer in answers if answer.status == 200]
    assert len({answer.body for answer in drawn}) == len(drawn) > 0
    assert max(answer.seconds for answer in answers) < 10
    assert running.memory_info().rss < MAX_RSS


def test_every_format_of_a_graph_with_thousands_of_nodes(process, store_explanation):
    port, _, running = process
    address = store_explanation([graph_of(4096, 32768, seed=1)])
    with polling(port) as seconds:
        answers = fetch_all(port, [f"{address}?format={form}" for form in FORMATS])
    assert_others_were_answered(seconds)
    # Graphs above D4_EXACT_NODES are not drawn as SVG.
    assert [answer.status for answer in answers] == [422, 200, 200, 200]
    assert max(answer.seconds for answer in answers) < 10
    positions = [node["position"] for node in json.loads(answers[2].body)["elements"]["nodes"]]
    assert len({(position["x"], position["y"]) for position in positions}) > 4000
    assert running.memory_info().rss < MAX_RSS


def test_drawings_of_disconnected_clients_are_stopped(process, store_explanation):
    port, _, running = process
    address = store_explanation([graph_of(4096, 32768, seed) for seed in range(20)])
    small = store_explanation([graph_of(20, 30, seed=1)])
    abandoned = [f"{address}?format=cytoscape&graph={i % 20}" for i in range(40)]
    assert not any(answer.status for answer in fetch_all(port, abandoned, timeout=0.2))
    with polling(port) as seconds:
        answer = fetch(port, f"{small}?format=svg")
        used = sum(running.cpu_times()[:2])
        time.sleep(1)
    assert answer.status == 200
    assert answer.seconds < 5
    assert_others_were_answered(seconds)
    assert sum(running.cpu_times()[:2]) - used < 0.7


def test_a_large_result_is_streamed_as_stored(process, store_explanation):
    port, _, running = process
    address = store_explanation([graph_of(4096, 32768, seed=1, features=100)] * 9)
    with polling(port) as seconds:
        answer = fetch(port, address)
        known = fetch(port, address, {"If-None-Match": answer.headers["etag"]})
        several = fetch_all(port, [address] * 5)
    assert max(seconds["/livez"]) < 0.2
    assert_others_were_answered(seconds)
    assert len(answer.body) == int(answer.headers["content-length"]) > 43e6
    document = json.loads(answer.body)
    assert [len(one["graph"]["nodes"]) for one in document["result"]["answers"]] == [4096] * 9
    assert (known.status, known.body) == (304, b"")
    assert known.seconds < 0.2
    assert {one.body for one in several} == {answer.body}
    assert running.memory_info().rss < MAX_RSS
