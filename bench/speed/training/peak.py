"""Measure time and peak memory of a training step in a separate process.

`python -m bench.speed.training.peak '{"hidden": 64, …}' SEED ROUNDS THREADS` prints a line of JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bench.speed.timing import fastest_times
from bench.speed.training.trainings import Setting, Steps
from d4explain.gnn.device import keep_freed_memory

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class StepCost:
    seconds: float
    products_seconds: float
    peak_bytes: int  # of the process after its steps, before timing the products

    @property
    def ratio(self) -> float:
        return self.seconds / self.products_seconds


def step_cost(setting: Setting, seed: int, rounds: int) -> StepCost:
    """Cost of a step with all losses, relative to the denoiser's products on L_dist."""
    arguments = [json.dumps(asdict(setting)), str(seed), str(rounds), str(torch.get_num_threads())]
    command = [sys.executable, "-m", "bench.speed.training.peak", *arguments]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return StepCost(**json.loads(finished.stdout))


def _peak_bytes() -> int:
    """Peak of this process; `resource` would include the peak of its parent."""
    if _STATUS.exists():
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(arguments: list[str]) -> None:
    setting_json, seed, rounds, threads = arguments
    torch.set_num_threads(int(threads))
    keep_freed_memory()
    setting = Setting(**json.loads(setting_json))
    steps = setting.training(int(seed), with_gnn=True).run()
    next(steps)
    next(steps)  # the first step allocates the optimiser's state, so the second needs more memory
    peak = _peak_bytes()
    products = Steps(setting.training(int(seed))).replay_products
    seconds, products_seconds = fastest_times(lambda: next(steps), products, rounds=int(rounds))
    print(json.dumps(asdict(StepCost(seconds, products_seconds, peak))))


if __name__ == "__main__":
    main(sys.argv[1:])
