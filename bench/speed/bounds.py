"""Targets of the speed benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_GB = 1e9


@dataclass(frozen=True)
class Bound:
    """A target for one figure, as text and as a condition."""

    key: str
    target: str
    holds: Callable[[float], bool]


BOUNDS = (
    Bound("step_over_matmul", "training step ≤ 1.6 times its matrix products", lambda x: x <= 1.6),
    Bound(
        "full_step_over_matmul",
        "training step with all losses and the GNN ≤ 1.6 times the denoiser's matrix products",
        lambda x: x <= 1.6,
    ),
    Bound(
        "paper_step_over_matmul",
        "training step at the paper's Tree-Cycle setting ≤ 2.2 times its matrix products",
        lambda x: x <= 2.2,
    ),
    Bound(
        "paper_step_peak_bytes",
        "peak memory of that step ≤ 2.5 GB",
        lambda x: x <= 2.5 * _GB,
    ),
    Bound(
        "many_jobs_over_one",
        "100 jobs of one graph ≤ 1.5 times the time of one job of 100 graphs",
        lambda x: x <= 1.5,
    ),
    Bound(
        "warm_overhead_ms",
        "warm request ≤ 60 ms slower than the library call",
        lambda x: x <= 60,
    ),
    Bound(
        "node_time_ratio_1e6_over_1e4",
        "time to explain a node, 10⁶ / 10⁴ nodes, between 0.8 and 1.2",
        lambda x: 0.8 <= x <= 1.2,
    ),
    Bound(
        "node_peak_bytes",
        "peak memory for a node in a graph of 10⁶ nodes < 2 GB",
        lambda x: x < 2 * _GB,
    ),
    Bound(
        "candidate_memory_exponent",
        "memory with candidate pairs grows at most as N^1.2",
        lambda x: x <= 1.2,
    ),
    Bound(
        "mmd_speedup",
        "MMD of 200 vs 200 graphs ≥ 50 times faster than a plain loop",
        lambda x: x >= 50,
    ),
    Bound("submit_rps", "≥ 100 submissions accepted per second", lambda x: x >= 100),
    Bound("submit_p99_ms", "p99 submission latency < 150 ms", lambda x: x < 150),
    Bound(
        "submit_over_bare",
        "≥ 0.5 times the throughput of a plain loop of the same commits",
        lambda x: x >= 0.5,
    ),
    Bound(
        "first_answer_max_seconds",
        "provisional answer ≤ 3 s after the question",
        lambda x: x <= 3,
    ),
    *(
        Bound(
            f"{name}_ratio",
            f"trainings before the final answer of {title} ≤ half of the CPU time without stopping",
            lambda x: x <= 0.5,
        )
        for name, title in (
            ("mutag", "MUTAG"),
            ("ba3motif", "BA-3Motif"),
            ("mutagenicity", "800 Mutagenicity graphs"),
        )
    ),
)
