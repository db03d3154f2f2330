"""Explain large graphs, each in a separate process that prints its cost.

`python -m bench.speed.large.runs NAME FOLDER …` prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.speed.large.inputs import CPU, SHAPES, ba, chain_near_boundary, node_gnn
from d4explain.gnn.device import keep_freed_memory
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome, explain
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.nodes import explain_node
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.denoiser import Denoiser
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, recipe_for
from models.diffusion.stored_denoisers import load_denoiser
from models.graphs.csr_graph import CsrGraph
from models.graphs.edits import EditRules
from models.graphs.large_neighbourhoods import surroundings
from store.artifacts.artifact_store import ArtifactStore
from store.database import tables
from store.settings import Settings
from worker.loading.library import Library

Measurement = dict[str, Any]
ALWAYS_CANDIDATES = CandidateConfig(above_nodes=0)
DENOISER = "denoiser.safetensors"
GNN = "gnn.safetensors"
PIECES = "pieces.safetensors"
_WARM_UP_NODES = 100


def run_in_process(name: str, *arguments: object) -> Measurement:
    """Run one measurement in a new process."""
    command = [sys.executable, "-m", "bench.speed.large.runs", name, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    measurement: Measurement = json.loads(finished.stdout.decode().splitlines()[-1])
    return measurement


def node(folder: str, digest: str) -> Measurement:
    """Explain one node of a large graph; peak memory covers the whole process."""
    keep_freed_memory()  # like the workers
    graph, load_seconds = _load_graph(folder, digest)
    started = time.perf_counter()
    outcome = _explain_node(graph)
    return {
        "nodes": graph.node_count,
        "edges": graph.edge_count,
        "load_seconds": load_seconds,
        "seconds": time.perf_counter() - started,
        "found": len(outcome.found),
        "peak_bytes": _memory("VmHWM"),
    }


def node_times(folder: str, small: str, large: str, rounds: str) -> Measurement:
    """Median CPU seconds to find and explain the same node's neighbourhood in two graphs.

    The runs alternate between the graphs.
    """
    graphs = [_load_graph(folder, digest)[0] for digest in (small, large)]
    for graph in graphs:
        _explain_node(graph)
    seconds: list[list[float]] = [[], []]
    for _ in range(int(rounds)):
        for graph_seconds, graph in zip(seconds, graphs, strict=True):
            started = time.process_time()
            _explain_node(graph)
            graph_seconds.append(time.process_time() - started)
    return {"small": statistics.median(seconds[0]), "large": statistics.median(seconds[1])}


def of_shape(folder: str, shape: str, nodes: str, seed: str) -> Measurement:
    """Explain a graph of one shape; memory is the peak above the warm process."""
    return _measure(folder, SHAPES[shape](int(nodes), int(seed)))


def at_all_pairs(folder: str, shape: str, nodes: str, seed: str) -> Measurement:
    """The same with all pairs instead of candidates."""
    graph = SHAPES[shape](int(nodes), int(seed))
    return _measure(folder, graph, CandidateConfig(above_nodes=graph.node_count))


def of_motifs(folder: str, nodes: str, _seed: str) -> Measurement:
    """Explain a chain of small graphs near the GNN's decision boundary."""
    gnn, _ = _load_models(folder)
    with safe_open(Path(folder) / PIECES, framework="pt") as opened:
        count = int(opened.metadata()["count"])
        pieces = [
            Graph(opened.get_tensor(f"x{i}"), opened.get_tensor(f"edges{i}")) for i in range(count)
        ]
    return _measure(folder, chain_near_boundary(gnn, pieces, int(nodes)))


def save_models(folder: Path, gnn: Gnn, denoiser: EdgeDenoiser, pieces: list[Graph]) -> None:
    """Write the models for the processes; the GNN has the layers of BA-3Motif."""
    save_file(dict(gnn.state_dict()), folder / GNN)
    shape = {"shape": json.dumps(denoiser.shape_document())}
    save_file(dict(denoiser.state_dict()), folder / DENOISER, metadata=shape)
    tensors = {f"x{i}": piece.features for i, piece in enumerate(pieces)}
    tensors |= {f"edges{i}": piece.edges.contiguous() for i, piece in enumerate(pieces)}
    save_file(tensors, folder / PIECES, metadata={"count": str(len(pieces))})


def _measure(
    folder: str, graph: Graph, candidates: CandidateConfig = ALWAYS_CANDIDATES
) -> Measurement:
    gnn, denoiser = _load_models(folder)
    config = CounterfactualConfig(search=PRESETS["fast"], candidates=candidates)

    def explain_graph(graph: Graph) -> CounterfactualOutcome:
        return explain(gnn, denoiser, graph, EditRules(), config, seed=0, device=CPU)

    explain_graph(ba(min(_WARM_UP_NODES, graph.node_count), 0))
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the recorded peak
    started = time.process_time()
    outcome = explain_graph(graph)
    return {
        "nodes": graph.node_count,
        "edges": graph.edge_count,
        "candidates": outcome.candidates,
        "peak_bytes": _memory("VmHWM") - before,
        "cpu_seconds": time.process_time() - started,
        "found": len(outcome.found),
        "edits": len(outcome.found[0].edits) if outcome.found else None,
        "gnn_evaluations": outcome.gnn_evaluations,
        "gnn_gradients": outcome.gnn_gradients,
    }


def _load_models(folder: str) -> tuple[Gnn, EdgeDenoiser]:
    from bench.gnns.recipes import target_recipe  # noqa: PLC0415 - would add to the memory of `node`

    spec: GnnSpec = target_recipe("ba3motif").spec(1, 3)
    gnn = Gnn(spec)
    gnn.load_state_dict(load_file(Path(folder) / GNN))
    with safe_open(Path(folder) / DENOISER, framework="pt") as opened:
        shape = json.loads(opened.metadata()["shape"])
    denoiser = load_denoiser(shape, load_file(Path(folder) / DENOISER))
    return gnn.eval().requires_grad_(False), denoiser.requires_grad_(False)


def _load_graph(folder: str, digest: str) -> tuple[CsrGraph, float]:
    """Load the graph like a worker."""
    started = time.perf_counter()
    row = tables.Dataset(graphs_digest=digest, large=True)
    graph = Library(ArtifactStore(folder), CPU).large_graph(row)
    return graph, time.perf_counter() - started


def _explain_node(graph: CsrGraph) -> CounterfactualOutcome:
    gnn = node_gnn()
    recipe = recipe_for(Objective.COUNTERFACTUAL)
    shape = recipe.shape(gnn.spec.features, marked=True, gnn=gnn.spec)
    denoiser = Denoiser(shape).eval().requires_grad_(False)
    surrounding = surroundings(
        graph,
        0,
        gnn.spec.convolutions,
        gnn.spec.receptive_field,
        max_nodes=Settings().max_neighbourhood_nodes,
    )
    config = CounterfactualConfig()
    return explain_node(
        gnn,
        denoiser,
        surrounding.within,
        EditRules(),
        config,
        whole=surrounding.seen,
        seed=0,
        device=CPU,
    )


def _memory(name: str) -> int:
    """A memory figure of this process in bytes; `resource` would include its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields[name].split()[0]) * 1024


_RUNS: dict[str, Callable[..., Measurement]] = {
    run.__name__: run for run in (node, node_times, of_shape, at_all_pairs, of_motifs)
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(_RUNS[sys.argv[1]](*sys.argv[2:])))
