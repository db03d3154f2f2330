"""Readers of untrusted input refuse what they do not accept, by domain errors alone.

`python -m tests.fuzz` searches for more inputs; those that it has found are in `tests/fuzz/found`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.mutations import mutate
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import Target, read

FOUND = sorted((Path(__file__).parents[2] / "fuzz" / "found").iterdir())
MUTATIONS = 400


def changed_bytes(data: bytes, size: int, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        position = rng.randint(0, len(changed))
        changed[position : position + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(changed[:size])


@pytest.mark.parametrize("target", Target)
def test_the_seeds_are_accepted(target: Target) -> None:
    accepted = [read(target, seed) for seed in SEEDS[target]()]
    # A SMILES needs the featuriser of a GNN.
    assert accepted.count(False) == (1 if target is Target.GRAPHS else 0)


@pytest.mark.parametrize("target", Target)
def test_changed_seeds_raise_only_refusals(target: Target) -> None:
    rng = random.Random(1)
    seeds = SEEDS[target]()
    accepted = 0
    for number in range(MUTATIONS):
        data = rng.choice(seeds)
        for _ in range(rng.randint(1, 3)):
            data = mutate(target, data, 4096, number, lambda d, size: changed_bytes(d, size, rng))
        accepted += read(target, data)
    assert accepted < MUTATIONS


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name[:24])
def test_inputs_that_broke_a_reader_are_refused(path: Path) -> None:
    target = Target(path.name.split("-")[0])
    read(target, path.read_bytes())
