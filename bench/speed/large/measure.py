"""Measure explanations in large graphs: one node of a million, and graphs with candidate pairs.

- `node_peak_bytes`: peak memory of a new process, torch included, that maps a graph of 10⁶ nodes
  and 5·10⁶ edges like a worker and explains one node.
- `node_time_ratio_1e6_over_1e4`: median CPU time of neighbourhood search and explanation in that
  graph, divided by the time in a graph of 10⁴ nodes with the same neighbourhood.
- `candidate_memory_exponent`: growth of memory from 500 to 4,000 nodes, the larger exponent of a BA
  graph and of a star joined to a BA graph. Memory is the peak resident set minus that of the
  process after loading the models and explaining a small graph.
- `candidate_auc` and `exact_auc`: CF-ACC of the same BA-3Motif graphs with and without candidates.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.counterfactuals.instances import select_instances
from bench.counterfactuals.methods import DIFFUSION_METHODS, DenoiserKind, diffusion_method
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.tasks import Task, load_task
from bench.gnns.target_gnns import TargetGnn, load_target_gnn
from bench.progress import OnProgress
from bench.speed.large.inputs import SHAPES, graph_with_fixed_neighbourhood
from bench.speed.large.runs import ALWAYS_CANDIDATES, Measurement, run_in_process, save_models
from bench.speed.section import Figures, Section, Table
from d4explain.contracts.scopes import DEFAULT_TENANT
from models.metrics.scores import Instance, cf_acc_auc, cf_acc_curve
from store.artifacts import large_graphs
from store.artifacts.artifact_store import ArtifactStore

_SMALL, _LARGE = 10**4, 10**6
_CHAIN_NODES = 2000
_PIECES = 200  # small graphs to build the chain from
_ALL_PAIRS = (100, 500)  # sizes of graphs also explained without candidates
_MB = 1e6


@dataclass(frozen=True)
class NodeFigures(Figures):
    node_peak_bytes: float
    node_time_ratio_1e6_over_1e4: float


@dataclass(frozen=True)
class AucFigures(Figures):
    exact_auc: float
    candidate_auc: float


@dataclass(frozen=True)
class GraphFigures(Figures):
    candidate_memory_exponent: float
    candidate_2000_found: float
    candidate_2000_edits: float | None
    candidate_2000_cpu_seconds: float


@dataclass(frozen=True)
class LargeFigures(GraphFigures, AucFigures, NodeFigures):
    """All figures of the benchmark."""


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[LargeFigures]:
    with tempfile.TemporaryDirectory() as folder:
        nodes = _nodes(Path(folder), short, seed, on_progress)
    task = load_task("ba3motif", seed)
    seconds = 60.0 if short else 600.0
    target = load_target_gnn(task, seed, lambda _: None, seconds=seconds)
    run = CounterfactualRun(
        target,
        task.train.graphs,
        select_instances(task, 30 if short else 100, seed),
        budget=15 if short else 60,
        seed=seed,
        on_progress=on_progress,
    )
    aucs = _aucs(run, target, on_progress)
    with tempfile.TemporaryDirectory() as folder:
        graphs = _graphs(Path(folder), run, task, short, on_progress)
    parts = (nodes.figures, aucs.figures, graphs.figures)
    figures = LargeFigures(
        **{name: value for part in parts for name, value in asdict(part).items()}
    )
    return Section(figures, (*nodes.tables, *graphs.tables, *aucs.tables))


def _nodes(folder: Path, short: bool, seed: int, on_progress: OnProgress) -> Section[NodeFigures]:
    label = "a node of a large graph"
    artifacts = ArtifactStore(str(folder))
    digests = []
    for stage, size in enumerate((_SMALL, _LARGE)):
        on_progress(label, stage, 5)
        graph = graph_with_fixed_neighbourhood(size, seed)
        digests.append(artifacts.of(DEFAULT_TENANT).put_large(partial(large_graphs.write, graph)))
    on_progress(label, 2, 5)
    runs = [run_in_process("node", folder, digest) for digest in digests]
    on_progress(label, 4, 5)
    rounds = 5 if short else 15
    times = run_in_process("node_times", folder, *digests, rounds)
    on_progress(label, 5, 5)
    for run, seconds in zip(runs, (times["small"], times["large"]), strict=True):
        run |= {"explain CPU s": seconds, "peak MB": run["peak_bytes"] / _MB}
    columns = {
        "nodes": "nodes",
        "edges": "edges",
        "load_seconds": "load s",
        "explain CPU s": "explain CPU s",
        "peak MB": "peak MB",
        "found": "counterfactuals",
    }
    table = Table(
        "One node of a large graph",
        tuple(columns.values()),
        tuple(tuple(run[key] for key in columns) for run in runs),
    )
    figures = NodeFigures(
        node_peak_bytes=runs[1]["peak_bytes"],
        node_time_ratio_1e6_over_1e4=times["large"] / times["small"],
    )
    return Section(figures, (table,))


def _graphs(
    folder: Path, run: CounterfactualRun, task: Task, short: bool, on_progress: OnProgress
) -> Section[GraphFigures]:
    denoiser, _ = run.denoiser(DenoiserKind.OURS)
    save_models(folder, run.target.gnn, denoiser, task.test.graphs[:_PIECES])
    sizes = (500, 4000) if short else (500, 1000, 2000, 4000)
    rows: list[tuple[str | float, ...]] = []
    exponents = []
    count = len(SHAPES) * len(sizes) + (1 if short else len(_ALL_PAIRS)) + 1
    for shape in SHAPES:
        peaks = []
        for size in sizes:
            on_progress("graphs with candidate pairs", len(rows), count)
            result = run_in_process("of_shape", folder, shape, size, run.seed)
            peaks.append(result["peak_bytes"])
            rows.append(_row(shape, result))
        exponents.append(float(np.polyfit(np.log(sizes), np.log(peaks), 1)[0]))
    for size in _ALL_PAIRS[: 1 if short else None]:
        on_progress("graphs with candidate pairs", len(rows), count)
        rows.append(
            _row("BA, all pairs", run_in_process("at_all_pairs", folder, "BA", size, run.seed))
        )
    on_progress("graphs with candidate pairs", len(rows), count)
    chain = run_in_process("of_motifs", folder, _CHAIN_NODES, run.seed)
    rows.append(_row("BA-3Motif chain", chain))
    on_progress("graphs with candidate pairs", count, count)
    columns = (
        "graph",
        "nodes",
        "edges",
        "candidates",
        "added MB",
        "CPU s",
        "counterfactuals",
        "edits",
    )
    growth = Table(
        "Growth exponent of memory with candidate pairs",
        ("graph", "exponent"),
        tuple(zip(SHAPES, exponents, strict=True)),
    )
    figures = GraphFigures(
        candidate_memory_exponent=max(exponents),
        candidate_2000_found=chain["found"],
        candidate_2000_edits=chain["edits"],
        candidate_2000_cpu_seconds=chain["cpu_seconds"],
    )
    return Section(figures, (Table("Graphs with candidate pairs", columns, tuple(rows)), growth))


def _row(shape: str, result: Measurement) -> tuple[str | float, ...]:
    edits, candidates = (
        "none" if result[name] is None else result[name] for name in ("edits", "candidates")
    )
    return (
        shape,
        result["nodes"],
        result["edges"],
        candidates,
        result["peak_bytes"] / _MB,
        result["cpu_seconds"],
        result["found"],
        edits,
    )


def _aucs(
    run: CounterfactualRun, target: TargetGnn, on_progress: OnProgress
) -> Section[AucFigures]:
    """Strict CF-ACC AUC of our method on small graphs, with all pairs and with candidates."""
    denoiser, _ = run.denoiser(DenoiserKind.OURS)
    exact = DIFFUSION_METHODS["d4"].config
    figures_of = {}
    for name, config in (
        ("exact", exact),
        ("candidate", replace(exact, candidates=ALWAYS_CANDIDATES)),
    ):
        method = diffusion_method(target.gnn, denoiser, config)
        answers = []
        evaluations = gradients = 0
        for index, instance in enumerate(run.instances):
            answer = method(instance, run.seed + index)
            edits = len(answer.found[0]) if answer.found else None
            answers.append(Instance(instance.graph.edge_count, edits))
            evaluations += answer.gnn_evaluations
            gradients += answer.gnn_gradients
            on_progress(f"small graphs, {name}", index + 1, len(run.instances))
        auc = cf_acc_auc(cf_acc_curve(answers))
        flips = sum(answer.edits is not None for answer in answers)
        count = len(answers)
        figures_of[name] = (auc, flips / count, evaluations / count, gradients / count)
    table = Table(
        f"CF-ACC AUC of {len(run.instances)} BA-3Motif graphs",
        ("node pairs", "AUC", "flip rate", "GNN evaluations", "GNN gradients"),
        (("all", *figures_of["exact"]), ("candidates", *figures_of["candidate"])),
    )
    return Section(AucFigures(figures_of["exact"][0], figures_of["candidate"][0]), (table,))
