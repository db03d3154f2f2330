"""Waits for the answers of an explanation and prints them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from d4explain.cli.input.files import write_file
from d4explain.cli.output.global_tables import show_global
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.result_tables import (
    class_table,
    counterfactual_table,
    mmd_table,
    reason_lines,
    stage_lines,
    summary_lines,
)
from d4explain.cli.output.terminal import messages, output, print_json
from d4explain.client.client import Client
from d4explain.client.errors import WaitTimeoutError
from d4explain.client.operations.explanation_requests import Result
from d4explain.client.resources import Explanation
from d4explain.client.results.answers import Answers
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.results import ClassResult


@dataclass(frozen=True)
class AnswerOutput:
    """What to wait for, and how to show it."""

    wait_for: Stage = Stage.FINAL
    timeout: float | None = None
    svg: Path | None = None
    as_json: bool = False


def wait_and_show(
    client: Client, explanation: Explanation, class_names: list[str] | None, shown: AnswerOutput
) -> None:
    """Show the awaited answer, and the drawing of this very answer."""
    answers = client.answers(explanation)
    messages().print(f"[dim]waiting for {explanation.id}", soft_wrap=True)
    timeout, started = shown.timeout, time.monotonic()
    try:
        with JobProgressBars(messages()) as bars:
            if shown.wait_for is Stage.FINAL:
                _show_first(answers, bars, class_names, timeout)
            if timeout is not None:
                timeout = max(0.0, timeout - (time.monotonic() - started))
            answers.wait(timeout, bars, shown.wait_for.value)
    except WaitTimeoutError as error:
        error.hint = f"`d4explain explanations watch {explanation.id}` waits for it again"
        raise
    if answers.explanation.reason is not None:
        messages().print(f"[yellow]{escape(answers.explanation.reason)}", soft_wrap=True)
    if shown.svg is not None:
        write_file(shown.svg, answers.draw().svg.encode())
    if shown.as_json:
        print_json(answers.explanation)
        return
    show_result(answers.result, class_names)
    drawing = f", drawn in {shown.svg}" if shown.svg else ""
    output().print(f"[dim]{explanation.id}{escape(drawing)}", soft_wrap=True)


def _show_first(
    answers: Answers, bars: JobProgressBars, class_names: list[str] | None, timeout: float | None
) -> None:
    """Show a provisional answer on stderr while the final one is awaited."""
    if answers.explanation.answer(Stage.PROVISIONAL) is None:
        return
    answers.wait(timeout, bars, "provisional")
    first = answers.result
    if first.stage is Stage.PROVISIONAL:
        if isinstance(first, CounterfactualResult):
            table, reasons = counterfactual_table(first, class_names), reason_lines(first)
        elif isinstance(first, ClassResult):
            table, reasons = class_table([first], class_names), []
        else:  # global counterfactuals have no provisional answer
            return
        messages().print(table)
        for line in [*stage_lines(first), *reasons]:
            messages().print(line, soft_wrap=True)


def show_result(result: Result, class_names: list[str] | None) -> None:
    console = output()
    if isinstance(result, GlobalResult):
        show_global(result, class_names)
        return
    if isinstance(result, CounterfactualResult):
        console.print(counterfactual_table(result, class_names))
        for line in [*stage_lines(result), *reason_lines(result), *summary_lines(result)]:
            console.print(line, soft_wrap=True)
    else:
        console.print(class_table([result], class_names))
        for line in stage_lines(result):
            console.print(line, soft_wrap=True)
    if result.mmd is not None:
        console.print(mmd_table(result.mmd))
    for warning in result.warnings:
        console.print(f"[yellow]{escape(warning)}", soft_wrap=True)
