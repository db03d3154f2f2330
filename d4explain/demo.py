"""`d4explain demo`: trains a small GNN and runs the whole workflow over HTTP."""

from __future__ import annotations

import json
import os
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

from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.result_tables import (
    class_table,
    counterfactual_table,
    mmd_table,
    probe_table,
    reason_lines,
    stage_lines,
    summary_lines,
)
from d4explain.client.client import Client
from d4explain.client.resources import Denoiser, Explanation, Gnn
from d4explain.client.results.progress import JOB_TITLES
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import GnnState
from d4explain.contracts.results import ClassResult
from d4explain.errors import CommandError
from d4explain.stack.embedded import embedded_stack
from d4explain.stack.folder_lock import running_stack
from d4explain.stack.source_tree import python_command, python_environment

MAX_RATIO = 0.3  # edits over edges
TARGET_FLIP_RATE = 0.8
GNN_NAME = "ba3motif"


@dataclass(frozen=True)
class DemoOptions:
    out: Path
    data_dir: Path
    graphs: int
    keep: bool  # reuse the data of the last demo


@dataclass(frozen=True)
class Verification:
    """How many counterfactuals the GNN confirms over HTTP."""

    graphs: int
    flipped: int  # within the ratio, and confirmed
    contradicted: int  # counterfactuals for which the GNN predicts another class

    @property
    def flip_rate(self) -> float:
        return self.flipped / self.graphs

    @property
    def passed(self) -> bool:
        return self.contradicted == 0 and self.flip_rate >= TARGET_FLIP_RATE


@dataclass(frozen=True)
class DemoInputs:
    """The registered GNN, its reference set and the graphs to explain."""

    gnn: Gnn
    dataset_id: str
    heldout: list[dict[str, Any]]

    @property
    def class_names(self) -> list[str] | None:
        return self.gnn.spec.get("class_names")


class Demo:
    """One run; prints its results and writes them to `options.out`."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._seconds: dict[str, float] = {}

    def run(self) -> Verification:
        started = time.monotonic()
        self._clear()
        with ExitStack() as cleanup:
            with self._step("Start broker, API and workers"):
                log = self._options.out / "stack.log"
                address = cleanup.enter_context(embedded_stack(self._options.data_dir, log))
                self._print(f"ready at {address}")
            client = cleanup.enter_context(Client(address))
            with self._step("Train a GNN on generated BA-3Motif graphs"):
                self._train_gnn()
            inputs = self._register(client)
            explanation = self._ask(client, inputs)
            # Trained while the final answer is awaited.
            class_denoiser = client.train_denoiser(inputs.gnn.id, inputs.dataset_id, "class")
            result = self._explain_graphs(client, inputs, explanation)
            verification = self._verify(client, inputs, result)
            self._explain_classes(client, inputs, class_denoiser)
        self._write_summary(verification, result, time.monotonic() - started)
        return verification

    def _clear(self) -> None:
        """Remove the results of the last run, so that this one shows every step."""
        out, data_dir = self._options.out, self._options.data_dir
        other = running_stack(data_dir)
        if other is not None:
            raise CommandError(f"another demo is running: pid {other.pid} at {other.address}")
        if not self._options.keep:
            shutil.rmtree(data_dir, ignore_errors=True)
        for folder in ("gnn", "svg"):
            shutil.rmtree(out / folder, ignore_errors=True)
        (out / "svg").mkdir(parents=True)

    def _train_gnn(self) -> None:
        folder = self._options.out / "gnn"
        options = ("--out", str(folder), "--test", str(self._options.graphs))
        argv = python_command("-m", "bench.gnns.example_gnn", *options)
        environment = python_environment(os.environ)
        where = sys.stderr if self._console.stderr else None
        code = subprocess.run(argv, env=environment, check=False, stdout=where).returncode
        if code != 0:
            raise CommandError(f"training the example GNN ended with code {code}")

    def _register(self, client: Client) -> DemoInputs:
        folder = self._options.out / "gnn"
        with self._step("Register the GNN: POST /v1/gnns"):
            spec, weights = folder / "spec.json", folder / "weights.safetensors"
            gnn = client.register_gnn(GNN_NAME, spec, weights)
            if gnn.report is not None:
                self._print("results of the probe:")
                self._console.print(probe_table(gnn.report))
            if gnn.state is not GnnState.READY:
                raise CommandError(f"the GNN is {gnn.state}")
            self._print(f"{gnn.id} is {gnn.state}")
        with self._step("Post the reference set: POST /v1/datasets"):
            reference = json.loads((folder / "reference.json").read_text())
            dataset = client.create_dataset(reference["name"], reference["graphs"])
            self._print(f"{dataset.id}: {dataset.graph_count} graphs")
        heldout = json.loads((folder / "heldout.json").read_text())["graphs"]
        return DemoInputs(gnn, dataset.id, heldout[: self._options.graphs])

    def _ask(self, client: Client, inputs: DemoInputs) -> Explanation:
        """Ask about all graphs; a search answers before anything is trained."""
        title = f"Ask about {len(inputs.heldout)} held-out graphs: POST /v1/explanations"
        with self._step(title):
            explanation = client.explain_counterfactual(
                inputs.gnn.id,
                inputs.dataset_id,
                inputs.heldout,
                constraints={"max_ratio": MAX_RATIO},
            )
            with self._bars() as bars:
                result = client.result(explanation, wait_for="provisional", on_progress=bars)
            assert isinstance(result, CounterfactualResult)
            self._console.print(counterfactual_table(result, inputs.class_names))
            for line in [*stage_lines(result), *reason_lines(result), *summary_lines(result)]:
                self._print(line)
            self._save(client, explanation, result, "provisional", {"provisional-00": 0})
        return explanation

    def _explain_graphs(
        self, client: Client, inputs: DemoInputs, explanation: Explanation
    ) -> CounterfactualResult:
        with self._step("Wait for the final answer: a denoiser and witnesses are trained"):
            with self._bars() as bars:
                result = client.result(explanation, on_progress=bars)
            assert isinstance(result, CounterfactualResult)
            self._console.print(counterfactual_table(result, inputs.class_names))
            for line in [*reason_lines(result), *summary_lines(result)]:
                self._print(line)
            if result.mmd is not None:
                self._console.print(mmd_table(result.mmd))
            drawings = {f"graph-{i:02}": i for i in range(len(result.answers))}
            self._save(client, explanation, result, "counterfactuals", drawings)
        return result

    def _verify(
        self, client: Client, inputs: DemoInputs, result: CounterfactualResult
    ) -> Verification:
        """Ask the GNN over HTTP to predict the graphs before and after their edits."""
        with self._step("Check: POST /v1/gnns/{id}/predictions with the edited graphs"):
            # Where no believable answer was found, the smallest flip counts.
            answers = [
                (answer, answer.counterfactuals or answer.minimal) for answer in result.answers
            ]
            explained = [answer for answer, found in answers if found]
            best = [found[0] for _, found in answers if found]
            graphs = [answer.graph.model_dump() for answer in explained]
            graphs += [counterfactual.graph.model_dump() for counterfactual in best]
            predictions = client.predictions(inputs.gnn.id, graphs) if graphs else []
            before, after = predictions[: len(explained)], predictions[len(explained) :]
            flipped, contradicted = 0, 0
            for answer, counterfactual, old, new in zip(
                explained, best, before, after, strict=True
            ):
                contradicted += (old.predicted_class, new.predicted_class) != (
                    answer.prediction.predicted_class,
                    counterfactual.prediction.predicted_class,
                )
                flips = old.predicted_class != new.predicted_class
                flipped += flips and counterfactual.modification_ratio <= MAX_RATIO
            confirmed = len(explained) - contradicted
            self._print(f"the GNN confirms {confirmed} of {len(explained)} counterfactuals")
        return Verification(len(result.answers), flipped, contradicted)

    def _explain_classes(self, client: Client, inputs: DemoInputs, denoiser: Denoiser) -> None:
        classes = range(inputs.gnn.spec["classes"])
        with self._step(f"Explain all {len(classes)} classes: POST /v1/explanations"):
            explanations = [
                client.explain_class(inputs.gnn.id, inputs.dataset_id, target) for target in classes
            ]
            titles = {
                explanation.job.id: f"explaining class {target}"
                for target, explanation in enumerate(explanations)
            }
            with self._bars(titles) as bars:
                client.wait(denoiser.job.id, on_progress=bars)
                results = [client.result(item, on_progress=bars) for item in explanations]
            class_results = [result for result in results if isinstance(result, ClassResult)]
            self._console.print(class_table(class_results, inputs.class_names))
            for explanation, result in zip(explanations, class_results, strict=True):
                name = f"class-{result.target_class}"
                drawings = {name: 0} if result.examples else {}
                self._save(client, explanation, result, name, drawings)

    def _save(
        self,
        client: Client,
        explanation: Explanation,
        result: CounterfactualResult | ClassResult,
        name: str,
        drawings: dict[str, int],  # file name → index of the graph
    ) -> None:
        path = self._options.out / f"{name}.json"
        path.write_text(result.model_dump_json(indent=1))
        for drawing, index in drawings.items():
            file = self._options.out / "svg" / f"{drawing}.svg"
            file.write_bytes(client.drawing(explanation.id, graph=index))

    def _write_summary(
        self, verification: Verification, result: CounterfactualResult, total: float
    ) -> None:
        summary = {
            "graphs": verification.graphs,
            "flipped_within_ratio": verification.flipped,
            "flip_rate": verification.flip_rate,
            "contradicted_over_http": verification.contradicted,
            "edits_by_denoiser": result.summary.edits_by_denoiser,
            "edits_by_search": result.summary.edits_by_search,
            "verdicts": result.summary.verdicts,
            "total_seconds": round(total, 1),
            "seconds": self._seconds,
        }
        out = self._options.out
        (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
        colour = "green" if verification.passed else "red"
        self._print("")
        self._print(
            f"[bold {colour}]{verification.flipped} of {verification.graphs} held-out graphs "
            f"({verification.flip_rate:.0%}) flipped within a modification ratio of {MAX_RATIO}[/]"
        )
        self._print(
            f"edits: {result.summary.edits_by_denoiser} proposed by the denoiser, "
            f"{result.summary.edits_by_search} found by the search"
        )
        drawings = len(list((out / "svg").glob("*.svg")))
        self._print(f"results: {drawings} drawings in {out / 'svg'}")
        for path in sorted(out.glob("*.json")):
            self._print(f"         {path}")
        self._print(f"total: {total:.0f} s")

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self._print(f"\n[bold]{len(self._seconds) + 1}. {title}[/]")
        started = time.monotonic()
        yield
        self._seconds[title] = round(time.monotonic() - started, 1)
        self._print(f"[dim]{self._seconds[title]:.1f} s[/]")

    def _bars(self, titles: dict[str, str] | None = None) -> JobProgressBars:
        own_titles = titles or {}
        return JobProgressBars(
            self._console, lambda job: own_titles.get(job.id) or JOB_TITLES[job.kind]
        )

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
