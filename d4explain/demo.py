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

from d4explain.cli.job_bars import WORDS, JobBars
from d4explain.cli.tables import (
    class_table,
    counterfactual_table,
    mmd_table,
    probe_table,
    summary_lines,
)
from d4explain.client.client import Client
from d4explain.client.resources import Denoiser, Explanation, Gnn
from d4explain.contracts.job_states import GnnState
from d4explain.contracts.results import ClassResult, CounterfactualResult
from d4explain.errors import CommandError
from d4explain.stack.embedded import embedded_stack
from d4explain.stack.folder_lock import running_stack

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
class Subject:
    """What is explained, and from what."""

    gnn: Gnn
    dataset_id: str
    heldout: list[dict[str, Any]]

    @property
    def class_names(self) -> list[str] | None:
        return self.gnn.spec.get("class_names")


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
                self._say(f"ready at {address}")
            client = opened.enter_context(Client(address))
            with self._step("Train a GNN on generated BA-3Motif graphs"):
                self._make_gnn()
            subject = self._register(client)
            denoisers = self._train(client, subject)
            answer = self._explain_graphs(client, subject)
            verdict = self._verify(client, subject, answer)
            self._explain_classes(client, subject, denoisers["class"])
        self._conclude(verdict, answer, time.monotonic() - began)
        return verdict

    def _clear(self) -> None:
        """Every run shows the whole road, trainings included; what the last one left goes."""
        out, data_dir = self._options.out, self._options.data_dir
        holder = running_stack(data_dir)
        if holder is not None:
            raise CommandError(f"another demo is running: pid {holder.pid} at {holder.address}")
        if not self._options.keep:
            shutil.rmtree(data_dir, ignore_errors=True)
        for folder in ("gnn", "svg"):
            shutil.rmtree(out / folder, ignore_errors=True)
        (out / "svg").mkdir(parents=True)

    def _make_gnn(self) -> None:
        folder = self._options.out / "gnn"
        argv = [sys.executable, "-m", "bench.gnns.example_gnn", "--out", str(folder)]
        argv += ["--test", str(self._options.graphs)]
        code = subprocess.run(argv, check=False).returncode
        if code != 0:
            raise CommandError(f"training the example GNN ended with code {code}")

    def _register(self, client: Client) -> Subject:
        folder = self._options.out / "gnn"
        with self._step("Register the GNN: POST /v1/gnns"):
            spec, weights = folder / "spec.json", folder / "weights.safetensors"
            gnn = client.register_gnn(GNN_NAME, spec, weights)
            if gnn.report is not None:
                self._say("the probe found:")
                self._console.print(probe_table(gnn.report))
            if gnn.state is not GnnState.READY:
                raise CommandError(f"the GNN is {gnn.state}")
            self._say(f"{gnn.id} is {gnn.state}")
        with self._step("Post the reference set: POST /v1/datasets"):
            reference = json.loads((folder / "reference.json").read_text())
            dataset = client.create_dataset(reference["name"], reference["graphs"])
            self._say(f"{dataset.id}: {dataset.graph_count} graphs")
        heldout = json.loads((folder / "heldout.json").read_text())["graphs"]
        return Subject(gnn, dataset.id, heldout[: self._options.graphs])

    def _train(self, client: Client, subject: Subject) -> dict[str, Denoiser]:
        with self._step("Train the denoiser: POST /v1/denoisers"), self._bars() as bars:
            # Both at once: the second trains while the first is already explaining graphs.
            denoisers = {
                objective: client.train_denoiser(subject.gnn.id, subject.dataset_id, objective)
                for objective in ("counterfactual", "class")
            }
            client.wait(denoisers["counterfactual"].job.id, on_progress=bars)
        return denoisers

    def _explain_graphs(self, client: Client, subject: Subject) -> CounterfactualResult:
        title = f"Explain {len(subject.heldout)} held-out graphs: POST /v1/explanations"
        with self._step(title):
            explanation = client.explain_counterfactual(
                subject.gnn.id,
                subject.dataset_id,
                subject.heldout,
                constraints={"max_ratio": MOST_RATIO},
            )
            with self._bars() as bars:
                result = client.result(explanation, on_progress=bars)
            assert isinstance(result, CounterfactualResult)
            self._console.print(counterfactual_table(result, subject.class_names))
            for line in summary_lines(result):
                self._say(line)
            if result.mmd is not None:
                self._console.print(mmd_table(result.mmd))
            pictures = {f"graph-{i:02}": i for i in range(len(result.answers))}
            self._save(client, explanation, result, "counterfactuals", pictures)
        return result

    def _verify(self, client: Client, subject: Subject, result: CounterfactualResult) -> Verdict:
        """Asks the GNN itself, over HTTP, about the graphs before and after."""
        with self._step("Check: POST /v1/gnns/{id}/predictions with the edited graphs"):
            found = [answer for answer in result.answers if answer.counterfactuals]
            best = [answer.counterfactuals[0] for answer in found]
            graphs = [answer.graph.model_dump() for answer in found]
            graphs += [item.graph.model_dump() for item in best]
            told = client.predictions(subject.gnn.id, graphs) if graphs else []
            flipped, contradicted = 0, 0
            for answer, item, old, new in zip(
                found, best, told[: len(found)], told[len(found) :], strict=True
            ):
                contradicted += (old.predicted_class, new.predicted_class) != (
                    answer.prediction.predicted_class,
                    item.prediction.predicted_class,
                )
                flips = old.predicted_class != new.predicted_class
                flipped += flips and item.modification_ratio <= MOST_RATIO
            confirmed = len(found) - contradicted
            self._say(f"the GNN confirms {confirmed} of {len(found)} counterfactuals")
        return Verdict(len(result.answers), flipped, contradicted)

    def _explain_classes(self, client: Client, subject: Subject, denoiser: Denoiser) -> None:
        classes = range(subject.gnn.spec["classes"])
        with self._step(f"Explain all {len(classes)} classes: POST /v1/explanations"):
            asked = [
                client.explain_class(subject.gnn.id, subject.dataset_id, target)
                for target in classes
            ]
            names = {
                explanation.job.id: f"explaining class {target}"
                for target, explanation in enumerate(asked)
            }
            with self._bars(names) as bars:
                client.wait(denoiser.job.id, on_progress=bars)
                results = [client.result(item, on_progress=bars) for item in asked]
            shown = [result for result in results if isinstance(result, ClassResult)]
            self._console.print(class_table(shown, subject.class_names))
            for explanation, result in zip(asked, shown, strict=True):
                name = f"class-{result.target_class}"
                pictures = {name: 0} if result.examples else {}
                self._save(client, explanation, result, name, pictures)

    def _save(
        self,
        client: Client,
        explanation: Explanation,
        result: CounterfactualResult | ClassResult,
        name: str,
        pictures: dict[str, int],  # file name → position of the graph
    ) -> None:
        path = self._options.out / f"{name}.json"
        path.write_text(result.model_dump_json(indent=1))
        for picture, position in pictures.items():
            drawing = self._options.out / "svg" / f"{picture}.svg"
            drawing.write_bytes(client.drawing(explanation.id, graph=position))

    def _conclude(self, verdict: Verdict, answer: CounterfactualResult, total: float) -> None:
        figures = {
            "graphs": verdict.graphs,
            "flipped_within_ratio": verdict.flipped,
            "flip_rate": verdict.flip_rate,
            "contradicted_over_http": verdict.contradicted,
            "edits_by_denoiser": answer.summary.edits_by_denoiser,
            "edits_by_search": answer.summary.edits_by_search,
            "total_seconds": round(total, 1),
            "seconds": self._seconds,
        }
        out = self._options.out
        (out / "summary.json").write_text(json.dumps(figures, indent=1) + "\n")
        colour = "green" if verdict.passed else "red"
        self._say("")
        self._say(
            f"[bold {colour}]{verdict.flipped} of {verdict.graphs} held-out graphs "
            f"({verdict.flip_rate:.0%}) flipped within a modification ratio of {MOST_RATIO}[/]"
        )
        self._say(
            f"edits: {answer.summary.edits_by_denoiser} put forward by the denoiser, "
            f"{answer.summary.edits_by_search} found by trying all pairs"
        )
        drawings = len(list((out / "svg").glob("*.svg")))
        self._say(f"results: {drawings} drawings in {out / 'svg'}")
        for path in sorted(out.glob("*.json")):
            self._say(f"         {path}")
        self._say(f"total: {total:.0f} s")

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self._say(f"\n[bold]{len(self._seconds) + 1}. {title}[/]")
        began = time.monotonic()
        yield
        self._seconds[title] = round(time.monotonic() - began, 1)
        self._say(f"[dim]{self._seconds[title]:.1f} s[/]")

    def _bars(self, names: dict[str, str] | None = None) -> JobBars:
        known = names or {}
        return JobBars(self._console, lambda job: known.get(job.id) or WORDS[job.kind])

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
