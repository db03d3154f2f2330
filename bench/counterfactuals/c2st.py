"""C2ST of `models.evaluation`, with a cache: a comparison takes seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from bench.data.digests import graphs_digest
from bench.gnns.target_gnns import CACHE
from bench.json_files import write_json
from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from models.evaluation.c2st import (
    FOLDS,
    MIN_PAIRS,
    SEEDS,
    TRAINING,
    Distinguishability,
    discriminator_spec,
    distinguishability,
)

__all__ = ["MIN_PAIRS", "Discriminator", "Distinguishability"]


class Discriminator:
    """Measures C2ST and caches the results."""

    def __init__(
        self,
        *,
        seed: int,
        on_progress: OnProgress,
        seeds: Sequence[int] = SEEDS,
        cache: Path = CACHE,
    ) -> None:
        """`seed` is that of the bootstrap, `seeds` are those of the folds and the training."""
        self._seed = seed
        self._seeds = seeds
        self._on_progress = on_progress
        self._cache = cache / "c2st"

    def compare(
        self, originals: Sequence[Graph], others: Sequence[Graph], *, label: str
    ) -> Distinguishability | None:
        """AUC of telling `others` from `originals`, which are pairs; None below 20 pairs."""
        if len(originals) < MIN_PAIRS:
            return None
        graphs = graphs_digest([*originals, *others])
        figures = [field.name for field in fields(Distinguishability)]
        spec = repr((discriminator_spec(originals[0].features.shape[1]), TRAINING))
        key = json.dumps([figures, graphs, spec, FOLDS, self._seeds, self._seed])
        file = self._cache / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
        if not file.is_file():
            result = distinguishability(
                originals,
                others,
                seed=self._seed,
                seeds=self._seeds,
                on_progress=lambda done, total: self._on_progress(label, done, total),
            )
            assert result is not None  # there are enough pairs
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, asdict(result))
        return Distinguishability(**json.loads(file.read_text()))
