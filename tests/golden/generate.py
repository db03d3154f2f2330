"""Generates the golden answers: `python -m tests.golden.generate`, about five minutes on one core.

Without options it trains the GNNs and denoisers, chooses the instances and writes everything.
`--digest` writes nothing: it prints a sha256 over the exact answers and the CPU seconds per
instance. Two versions of the code with equal digests on one machine give bit-identical answers.
`--answers` keeps weights and instances and writes new answers, for an intended change.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.golden.answers import (
    CLASSES,
    DEFAULT_SETTING,
    FOLDER,
    OTHER_MACHINE,
    TIED,
    Golden,
    answer,
    compute_answers,
    differences,
    expected_file,
    stored_engine,
)
from tests.golden.engine import FILES, SETTINGS, GoldenData, GoldenEngine, train_all

INSTANCES = 20  # of the default setting
OTHER_INSTANCES = 6  # of each other setting
TIED_INSTANCES = 8
_CANDIDATES = 80
_OTHER_CANDIDATES = 16
_CLASS_SEEDS = 4
_NODES = range(5, 46)  # sizes that are explained
_SEED = 0
_OTHER_KERNELS = (
    {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
)


def candidates(name: str) -> dict[str, list[int]]:
    """Test instances in seeded random order; the default setting of Tree-Cycle has tree nodes."""
    data, engine = GoldenData(name), stored_engine(name)
    test_ids = data.test_ids()
    order = torch.randperm(len(test_ids), generator=torch.Generator().manual_seed(_SEED)).tolist()
    ids = [test_ids[i] for i in order if engine.node_count(test_ids[i]) in _NODES]
    default = [one for one in ids if data.label_of(one) == 0] if name == "tree_cycle" else ids
    return {
        **dict.fromkeys(SETTINGS, ids[:_OTHER_CANDIDATES]),
        DEFAULT_SETTING: default[:_CANDIDATES],
        **{group: list(range(_CLASS_SEEDS)) for group in CLASSES},
    }


def choose_instances(name: str) -> dict[str, list[int]]:
    """Chooses the first candidates whose answers agree with all kernels, and some others."""
    ids = candidates(name)
    mine = compute_answers(stored_engine(name), ids)
    others = [_answers_with_kernels(name, ids, kernels) for kernels in _OTHER_KERNELS]
    agreeing: dict[str, list[int]] = {}
    for group, some in ids.items():
        agreeing[group] = [one for one in some if _agree(group, str(one), mine, others)]
        print(f"{name}, {group}: {len(agreeing[group])} of {len(some)} agree", flush=True)
    tied = [one for one in ids[DEFAULT_SETTING] if one not in agreeing[DEFAULT_SETTING]]
    return {
        **{setting: agreeing[setting][:OTHER_INSTANCES] for setting in SETTINGS},
        DEFAULT_SETTING: agreeing[DEFAULT_SETTING][:INSTANCES],
        TIED: tied[:TIED_INSTANCES],
        **{group: agreeing[group][:1] for group in CLASSES},
    }


def _agree(group: str, key: str, mine: Golden, others: list[Golden]) -> bool:
    expected = mine.answers[group][key]
    return not any(
        list(differences(expected, other.answers[group][key], OTHER_MACHINE)) for other in others
    )


def _answers_with_kernels(name: str, ids: dict[str, list[int]], kernels: dict[str, str]) -> Golden:
    """Computes answers in a separate process, because torch chooses its kernels once."""
    with tempfile.TemporaryDirectory() as folder:
        ids_file, answers_file = Path(folder) / "ids.json", Path(folder) / "answers.json"
        ids_file.write_text(json.dumps(ids))
        command = [sys.executable, "-m", "tests.golden.generate", "--sets", name]
        command += ["--probe", str(ids_file), str(answers_file)]
        subprocess.run(command, check=True, env={**os.environ, **kernels})
        return Golden.read(answers_file)


def print_digest(name: str, runs: int) -> None:
    """Prints the digest and the median of the CPU seconds per counterfactual."""
    ids = Golden.read(expected_file(name)).ids
    engine = stored_engine(name)
    found = compute_answers(engine, ids)  # also warms up
    equal = found.answers == Golden.read(expected_file(name)).answers
    print(f"{name} sha256 {found.digest} ({'equal to' if equal else 'NOT'} the stored answers)")
    for group, some in ids.items():
        if not some:
            continue
        seconds = [_cpu_seconds(engine, group, some) for _ in range(runs)]
        spread = f"{min(seconds):.4f} to {max(seconds):.4f}"
        median = statistics.median(seconds)
        print(f"  {group}: {median:.4f} CPU s per answer ({spread}), {len(some)} answers")


def _cpu_seconds(engine: GoldenEngine, group: str, ids: list[int]) -> float:
    """CPU seconds per answer."""
    started = time.process_time()
    for one in ids:
        answer(engine, group, one)
    return (time.process_time() - started) / len(ids)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.generate", description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--digest", action="store_true", help="print digests and CPU seconds")
    parser.add_argument("--answers", action="store_true", help="keep weights and instances")
    parser.add_argument("--runs", type=int, default=3, help="of --digest (3)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (1)")
    parser.add_argument("--probe", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.sets:
        if options.probe:
            ids_file, answers_file = options.probe
            compute_answers(stored_engine(name), json.loads(ids_file.read_text())).write(
                answers_file
            )
        elif options.digest:
            print_digest(name, options.runs)
        elif options.answers:
            ids = Golden.read(expected_file(name)).ids
            compute_answers(stored_engine(name), ids).write(expected_file(name))
        else:
            (FOLDER / name).mkdir(exist_ok=True)
            train_all(GoldenData(name), FOLDER / name, _SEED)
            compute_answers(stored_engine(name), choose_instances(name)).write(expected_file(name))


if __name__ == "__main__":
    main()
