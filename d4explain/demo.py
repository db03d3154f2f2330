"""`d4explain demo`: the whole road once, over HTTP, with a small GNN made on the spot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule

from d4explain.client import Client
from d4explain.command_errors import CommandError
from d4explain.embedded import embedded_stack
from d4explain.lock import running_stack
from d4explain.resources import Denoiser, Explanation, Job
from d4explain.tables import (
    class_table,
    counterfactual_table,
    mmd_table,
    probe_table,
    summary_lines,
)
from d4explain.terminal import WORDS, JobBars, metric_words
from store.job_states import GnnState, JobKind
from store.results import ClassResult, CounterfactualResult

MOST_RATIO = 0.3  # edits over edges
WANTED_FLIP_RATE = 0.8
GNN_NAME = "ba3motif"


@dataclass(frozen=True)
class DemoOptions:
    out: Path
    data_dir: Path
    graphs: int = 24
    keep: bool = False  # go on with the data of the demo before


@dataclass(frozen=True)
class Verdict:
    """What the demo has to show."""

    graphs: int
    flipped: int  # within the ratio, and confirmed by the GNN over HTTP
    contradicted: int  # counterfactuals that the GNN, asked again over HTTP, denies

    @property
    def flip_rate(self) -> float:
        return self.flipped / self.graphs

    @property
    def passed(self) -> bool:
        return self.contradicted == 0 and self.flip_rate >= WANTED_FLIP_RATE


@dataclass(frozen=True)
class Trained:
    """All that explanations are made with."""

    gnn_id: str
    dataset_id: str
    classes: int
    heldout: list[dict[str, Any]]
    denoisers: dict[str, Denoiser]  # by objective


class Demo:
    """One run; what it finds is printed and written below `options.out`."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._seconds: dict[str, float] = {}

    def run(self) -> Verdict:
        began = time.monotonic()
        self._clear()
        with ExitStack() as opened:
            with self._step("Start broker, API and two workers"):
                log = self._options.out / "stack.log"
                address = opened.enter_context(embedded_stack(self._options.data_dir, log))
                self._console.print(f"ready at {address}")
            client = opened.enter_context(Client(address))
            with self._step("Train a GNN on generated BA-3Motif graphs"):
                self._make_gnn()
            trained = self._register(client)
            explanation, answer = self._explain_graphs(client, trained)
            verdict = self._verify(client, trained, answer)
            classes = self._explain_classes(client, trained)
            self._save(client, [(explanation, answer), *classes])
        self._conclude(verdict, answer, time.monotonic() - began)
        return verdict

    def _clear(self) -> None:
        """Every run shows the whole road, trainings included; results of the last one go."""
        out, data_dir = self._options.out, self._options.data_dir
        holder = running_stack(data_dir)
        if holder is not None:
            raise CommandError(f"another demo is running: pid {holder.pid} at {holder.address}")
        if not self._options.keep:
            shutil.rmtree(data_dir, ignore_errors=True)
        out.mkdir(parents=True, exist_ok=True)
        for folder in ("gnn", "svg"):
            shutil.rmtree(out / folder, ignore_errors=True)

    def _make_gnn(self) -> None:
        target = self._options.out / "gnn"
        argv = [sys.executable, "-m", "bench.example_gnn", "--out", str(target)]
        argv += ["--test", str(self._options.graphs)]
        code = subprocess.run(argv, check=False).returncode
        if code != 0:
            raise CommandError(f"training the example GNN ended with code {code}")

    def _register(self, client: Client) -> Trained:
        folder = self._options.out / "gnn"
        with self._step("Register the GNN: POST /v1/gnns"):
            gnn = client.register_gnn(
                GNN_NAME, folder / "spec.json", folder / "weights.safetensors"
            )
            if gnn.report is not None:
                self._console.print(probe_table(gnn.report))
            if gnn.state is not GnnState.READY:
                raise CommandError(f"the probe {gnn.state} the GNN")
            self._console.print(f"{gnn.id} is {gnn.state}")
        with self._step("Post the reference set: POST /v1/datasets"):
            reference = json.loads((folder / "reference.json").read_text())
            dataset = client.create_dataset(reference["name"], reference["graphs"])
            self._console.print(f"{dataset.id}: {dataset.graphs} graphs")
        heldout = json.loads((folder / "heldout.json").read_text())["graphs"]
        if len(heldout) < self._options.graphs:
            raise CommandError(
                f"{len(heldout)} held-out graphs; {self._options.graphs} are asked for"
            )
        with self._step("Train the denoiser: POST /v1/denoisers"), self._bars() as bars:
            # Both at once: the second trains while the first is already explaining graphs.
            denoisers = {
                objective: client.train_denoiser(gnn.id, dataset.id, objective)
                for objective in ("counterfactual", "class")
            }
            job = client.wait(denoisers["counterfactual"].job.id, on_progress=bars)
        self._console.print(f"[dim]{_last_metrics(job)}")
        picked = heldout[: self._options.graphs]
        return Trained(gnn.id, dataset.id, gnn.spec["classes"], picked, denoisers)

    def _explain_graphs(
        self, client: Client, trained: Trained
    ) -> tuple[Explanation, CounterfactualResult]:
        title = f"Explain {len(trained.heldout)} held-out graphs: POST /v1/explanations"
        with self._step(title), self._bars() as bars:
            explanation = client.explain_counterfactual(
                trained.gnn_id,
                trained.dataset_id,
                trained.heldout,
                constraints={"max_ratio": MOST_RATIO},
            )
            result = client.result(explanation, on_progress=bars)
        assert isinstance(result, CounterfactualResult)
        self._console.print(counterfactual_table(result))
        for line in summary_lines(result):
            self._console.print(line)
        return explanation, result

    def _verify(self, client: Client, trained: Trained, result: CounterfactualResult) -> Verdict:
        """Asks the GNN itself, over HTTP, about the graphs before and after."""
        with self._step("Check: POST /v1/gnns/{id}/predictions with the edited graphs"):
            found = [answer for answer in result.answers if answer.counterfactuals]
            best = [answer.counterfactuals[0] for answer in found]
            before = client.predictions(
                trained.gnn_id, [answer.graph.model_dump() for answer in found]
            )
            after = client.predictions(trained.gnn_id, [item.graph.model_dump() for item in best])
            flipped, contradicted = 0, 0
            for answer, item, old, new in zip(found, best, before, after, strict=True):
                agrees = (
                    old.predicted_class == answer.prediction.predicted_class
                    and new.predicted_class == item.prediction.predicted_class
                )
                contradicted += not agrees
                flips = old.predicted_class != new.predicted_class
                flipped += flips and item.modification_ratio <= MOST_RATIO + 1e-9
            verdict = Verdict(len(result.answers), flipped, contradicted)
            self._console.print(
                f"the GNN confirms {len(found) - contradicted} of {len(found)} counterfactuals"
            )
        return verdict

    def _explain_classes(
        self, client: Client, trained: Trained
    ) -> list[tuple[Explanation, ClassResult]]:
        title = f"Explain the {trained.classes} classes: POST /v1/explanations"
        with self._step(title), self._bars() as bars:
            asked = [
                client.explain_class(trained.gnn_id, trained.dataset_id, target)
                for target in range(trained.classes)
            ]
            client.wait(trained.denoisers["class"].job.id, on_progress=bars)
            answers = []
            for explanation in asked:
                result = client.result(explanation, on_progress=bars)
                assert isinstance(result, ClassResult)
                answers.append((explanation, result))
        self._console.print(class_table([result for _, result in answers]))
        return answers

    def _save(
        self,
        client: Client,
        explained: list[tuple[Explanation, CounterfactualResult | ClassResult]],
    ) -> None:
        svg = self._options.out / "svg"
        svg.mkdir()
        with self._step("Draw: GET /v1/explanations/{id}?format=svg"):
            for explanation, result in explained:
                if isinstance(result, CounterfactualResult):
                    name = "counterfactuals"
                    pictures = {f"graph-{i:02}": i for i in range(len(result.answers))}
                else:
                    name = f"class-{result.target_class}"
                    pictures = {name: 0} if result.examples else {}
                path = self._options.out / f"{name}.json"
                path.write_text(result.model_dump_json(indent=1))
                for picture, position in pictures.items():
                    drawn = client.drawing(explanation.id, graph=position)
                    (svg / f"{picture}.svg").write_bytes(drawn)
                drawings = f" and {len(pictures)} drawings in {svg}" if pictures else ""
                self._console.print(f"{path}{drawings}")

    def _conclude(self, verdict: Verdict, answer: CounterfactualResult, total: float) -> None:
        summary = answer.summary
        if answer.mmd is not None:
            self._console.print(mmd_table(answer.mmd))
        good = "[green]" if verdict.passed else "[red]"
        self._console.print(
            Rule(),
            f"{good}{verdict.flipped} of {verdict.graphs} held-out graphs "
            f"({verdict.flip_rate:.0%}) flipped within a modification ratio of {MOST_RATIO}[/]",
            f"edits: {summary.edits_by_denoiser} proposed by the denoiser, "
            f"{summary.edits_by_search} by search",
            f"total {total:.0f} s",
            sep="\n",
        )
        figures = {
            "graphs": verdict.graphs,
            "flipped_within_ratio": verdict.flipped,
            "flip_rate": verdict.flip_rate,
            "contradicted_over_http": verdict.contradicted,
            "edits_by_denoiser": summary.edits_by_denoiser,
            "edits_by_search": summary.edits_by_search,
            "total_seconds": round(total, 1),
            "seconds": self._seconds,
        }
        (self._options.out / "summary.json").write_text(json.dumps(figures, indent=1) + "\n")

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self._console.print(f"\n[bold]{len(self._seconds) + 1}. {title}[/]")
        began = time.monotonic()
        yield
        self._seconds[title] = round(time.monotonic() - began, 1)
        self._console.print(f"[dim]{self._seconds[title]:.1f} s[/]")

    def _bars(self) -> JobBars:
        return JobBars(self._console, describe=_describe)


def _describe(job: Job) -> str:
    if job.kind is JobKind.CLASS_EXPLANATION and job.subject:
        return f"{WORDS[job.kind]} {job.id[-4:]}"
    return WORDS.get(job.kind, str(job.kind))


def _last_metrics(job: Job) -> str:
    return metric_words(job.progress.metrics) if job.progress else ""
