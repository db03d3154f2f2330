"""Drawings and large results in `python -m service`: others are answered meanwhile."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import networkx as nx
import psutil
import pytest

from store.opened import Store
from store.results import ResultEdge, ResultGraph, ResultNode
from store.settings import Settings

FORMATS = ("svg", "graphml", "cytoscape", "pyg")
MAX_RSS = 700e6


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """Its port, its folder and its process."""
    folder = tmp_path_factory.mktemp("drawings")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
def probing(port):
    """Asks /livez and /readyz all the time; afterwards the seconds that each answer took."""
    seconds = {"/livez": [], "/readyz": []}
    over = threading.Event()

    def ask(path):
        while not over.is_set():
            answer = fetch(port, path)
            seconds[path].append(answer.seconds if answer.status in (200, 503) else 60.0)
            time.sleep(0.01)

    threads = [threading.Thread(target=ask, args=(path,)) for path in seconds]
    for thread in threads:
        thread.start()
    try:
        yield seconds
    finally:
        over.set()
        for thread in threads:
            thread.join()


def slowest(seconds):
    """The 99th percentile."""
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))]


def graph_of(nodes, edges, seed, features=4):
    pairs = nx.gnm_random_graph(nodes, edges, seed=seed).edges
    one_hot = [[float(i == j) for j in range(features)] for i in range(features)]
    return ResultGraph(
        nodes=[ResultNode(id=i, x=one_hot[i % features]) for i in range(nodes)],
        edges=[ResultEdge(source=source, target=target) for source, target in pairs],
    )


@pytest.fixture(scope="module")
def explained(process):
    """Stores a result with these graphs; gives the explanation's address."""
    import httpx  # noqa: PLC0415

    from tests.conftest import Deployment  # noqa: PLC0415

    port, folder, _ = process
    with (
        Store.open(Settings(data_dir=folder / "data"), migrate=False) as store,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        api = Deployment(store, client)

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
            posted = api.explanation(seed=len(answers))
            api.finish_explanation(posted, base.model_copy(update={"answers": answers}))
            return f"/v1/explanations/{posted['id']}"

        yield explain
