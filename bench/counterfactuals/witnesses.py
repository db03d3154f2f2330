"""The selection witnesses of a target GNN, trained once and cached."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file

from bench.counterfactuals.instances import CPU
from bench.data.digests import graphs_digest
from bench.progress import OnProgress
from bench.report.provenance import code_digest, imported_by
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.counterfactual.panel import Panel
from models.realism.reference_patterns import ReferencePatterns
from models.witnesses.witness_set import (
    MIN_GRAPHS,
    PLANS,
    Role,
    WitnessProgress,
    load_witnesses,
    train_witnesses,
)


def load_panel(
    gnn: Gnn,
    reference: Sequence[Graph],
    folder: Path,
    *,
    seed: int,
    on_progress: OnProgress,
) -> tuple[Panel, float]:
    """Selection witnesses and patterns of the reference graphs, and the seconds of the training.

    The panel has no judges: those of the benchmark judge every method. With too few reference
    graphs it has no witnesses either.
    """
    patterns = ReferencePatterns.of(reference)
    if len(reference) < MIN_GRAPHS:
        return Panel(patterns=patterns), 0.0
    plans = [plan for plan in PLANS if plan.role is Role.SELECTION]
    code = code_digest(imported_by("models/witnesses/witness_set.py"))
    key = json.dumps([graphs_digest(reference), repr(plans), seed, code])
    file = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.safetensors"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        started = time.process_time()

        def show(progress: WitnessProgress) -> None:
            label = f"training witness {progress.finished + 1} of {progress.total}"
            on_progress(label, progress.epoch, progress.epochs)

        trained = train_witnesses(
            gnn, reference, None, seed=seed, device=CPU, plans=plans, on_progress=show
        )
        metadata = {
            "witnesses": json.dumps(trained.description()),
            "seconds": str(time.process_time() - started),
        }
        partial = file.with_suffix(".partial")
        save_file(trained.tensors(), partial, metadata=metadata)
        partial.replace(file)
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    witnesses = load_witnesses(gnn.spec, json.loads(metadata["witnesses"]), load_file(file))
    panel = Panel(selection=witnesses.usable(Role.SELECTION), patterns=patterns)
    return panel, float(metadata["seconds"])
