"""Coverage-guided fuzzing of one reader: `python -m tests.fuzz graphs --inputs 200000`.

It needs the extra `fuzz`. Inputs that crash a reader are written to `tests/fuzz/found/`, where the
tests find them.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["service.graph_io", "d4explain.contracts"]):
    from tests.fuzz.seeds import SEEDS
    from tests.fuzz.targets import Target, read

from tests.fuzz.mutations import mutate

FOUND = Path(__file__).parent / "found"
MAX_BYTES = 4096  # of an input
MAX_MEMORY_MIB = 512


class Counts:
    """What the fuzzed reader did; libFuzzer ends the process itself, so it is printed before."""

    def __init__(self, target: Target, inputs: int) -> None:
        self._target, self._inputs = target, inputs
        self._started = time.monotonic()
        self._read = self._accepted = 0

    def run(self, data: bytes) -> None:
        self._accepted += read(self._target, data)
        self._read += 1
        if self._read == self._inputs:
            seconds = time.monotonic() - self._started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{self._target}: {self._read:,} inputs, {self._accepted:,} accepted, no crash, "
                f"{seconds:.0f} s, peak memory {peak:.0f} MiB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", type=Target, choices=list(Target))
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    FOUND.mkdir(exist_ok=True)
    counts = Counts(chosen.target, chosen.inputs)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(SEEDS[chosen.target]()):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup(
            [
                sys.argv[0],
                corpus,
                f"-runs={chosen.inputs}",
                f"-seed={chosen.seed}",
                f"-max_len={MAX_BYTES}",
                f"-rss_limit_mb={MAX_MEMORY_MIB}",
                f"-artifact_prefix={FOUND}/{chosen.target}-",
                "-timeout=20",
                "-print_final_stats=1",
            ],
            counts.run,
            custom_mutator=lambda data, size, seed: mutate(
                chosen.target, data, size, seed, atheris.Mutate
            ),
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
