"""The answers of one explanation: what `Client.explain` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from html import escape
from typing import Literal, Self

from d4explain.client.errors import RefusedError
from d4explain.client.graph_formats.answer_graphs import AnswerGraph
from d4explain.client.job_waiting import OnProgress
from d4explain.client.operations.answer_waiting import wait_for_answer
from d4explain.client.operations.explanation_requests import Result, graph_content
from d4explain.client.resources import Explanation, Job
from d4explain.client.results.answer import Answer
from d4explain.client.results.drawing import Drawing
from d4explain.client.results.notebook_html import answers_html
from d4explain.client.results.progress import shown_progress
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import AsyncCaller, BlockingCaller, Operation, run
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.errors import D4Error

WaitFor = Literal["provisional", "final"]


class UnfinishedError(D4Error):
    """The result was read before the job had ended."""


class BaseAnswers(Sequence[Answer]):
    """One `Answer` per graph or node, as soon as `wait` has returned.

    `explanation` is the resource of the API, and `result` its whole result.
    """

    def __init__(self, transport: HttpTransport, explanation: Explanation) -> None:
        self._transport = transport
        self.explanation = explanation
        self._answers: list[Answer] | None = None
        self._drawings: dict[tuple[int | None, int], Drawing] = {}

    @property
    def id(self) -> str:
        return self.explanation.id

    @property
    def result(self) -> Result:
        """The whole result; raises `UnfinishedError` before `wait` has returned."""
        if self.explanation.result is None:
            raise UnfinishedError(f"explanation {self.id} has no result yet; call wait() first")
        return self.explanation.result

    @property
    def answers(self) -> list[Answer]:
        """One per posted graph or explained node; empty for a class."""
        if self._answers is None:
            result = self.result
            documents = result.answers if isinstance(result, CounterfactualResult) else []
            self._answers = [Answer(document) for document in documents]
        return self._answers

    @property
    def examples(self) -> list[AnswerGraph]:
        """The patterns of a class, or global counterfactuals; empty for other counterfactuals."""
        result = self.result
        if isinstance(result, CounterfactualResult):
            return []
        if isinstance(result, GlobalResult):
            return [
                AnswerGraph(one.graph, one.prediction, molecule=one.molecule)
                for one in result.counterfactuals
            ]
        return [
            AnswerGraph(example.graph, example.prediction, molecule=example.molecule)
            for example in result.examples
        ]

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, index: int) -> Answer:  # type: ignore[override] # no slices
        return self.answers[index]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @Operation
    async def draw(self, graph: int | None = None, alternative: int = 0) -> Drawing:
        """The drawing of a counterfactual or class example; numbers count from 0.

        Without `graph` the first or, of global counterfactuals, all in one drawing.
        """
        drawings = self._drawings
        drawing = drawings.get((graph, alternative))
        if drawing is None:
            result = self.explanation.result
            stage = Stage.FINAL if result is None else result.stage
            content = await graph_content(
                self._transport, self.id, "svg", graph, alternative, stage=stage
            )
            drawing = drawings[graph, alternative] = Drawing(content.decode())
        return drawing

    @Operation
    async def cancel(self) -> Job:
        """Cancel the job of the explanation."""
        path = f"/v1/jobs/{self.explanation.job.id}/cancel"
        return Job.model_validate((await self._transport.send("POST", path)).json())

    async def _wait(
        self, timeout: float | None, on_progress: OnProgress | None, wait_for: WaitFor
    ) -> None:
        with ExitStack() as display:
            report = on_progress or display.enter_context(shown_progress())
            self.explanation = await wait_for_answer(
                self._transport,
                self.explanation,
                Stage(wait_for),
                on_progress=report,
                timeout=timeout,
            )
        # Those of a provisional answer do not show the final one.
        self._answers = None
        self._drawings = {}

    def __repr__(self) -> str:
        if self.explanation.result is None:
            return f"<{type(self).__name__} {self.id}: {self.explanation.state}>"
        found = sum(answer.found for answer in self.answers)
        what = f"{found} of {len(self)} found" if self.answers else f"{len(self.examples)} examples"
        if isinstance(self.result, GlobalResult):
            what = f"{len(self.examples)} global counterfactuals"
        return f"<{type(self).__name__} {self.id}: {what}>"

    def _repr_html_(self) -> str:
        return self._html(self._drawings.get((None, 0)))

    def _html(self, drawing: Drawing | None) -> str:
        if self.explanation.result is None:
            return f"<p>{escape(repr(self))}</p>"
        image = "" if drawing is None else drawing.html()
        if not self.answers:
            return f"{image}<p>{escape(repr(self))}</p>"
        return answers_html(self.answers, image, self.result.warnings)


class Answers(BaseAnswers, BlockingCaller):
    """The answers of one explanation; notebooks show a drawing and a table."""

    def wait(
        self,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        wait_for: WaitFor = "final",
    ) -> Self:
        """Wait for the result and return these answers.

        If networks have to be trained first, wait_for="provisional" returns with the answer of a
        search, which comes at once. Shows a progress bar in terminals and notebooks, or calls
        `on_progress` with every job that changes. Raises `WaitTimeoutError` after `timeout`
        seconds, and `UnsuccessfulJobError`.
        """
        run(self._wait(timeout, on_progress, wait_for))
        return self

    def _repr_html_(self) -> str:
        return self._html(self._drawn())

    def _repr_svg_(self) -> str | None:
        drawing = self._drawn()
        return None if drawing is None else drawing.svg

    def _drawn(self) -> Drawing | None:
        """The first drawing; None if there is no result, or if the graph is too large to draw."""
        if self.explanation.result is None:
            return None
        try:
            return self.draw()
        except RefusedError:
            return None


class AsyncAnswers(BaseAnswers, AsyncCaller):
    """The answers of one explanation; notebooks show a table and, after `draw`, the drawing."""

    async def wait(
        self,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        wait_for: WaitFor = "final",
    ) -> Self:
        """Like `Answers.wait`."""
        await self._wait(timeout, on_progress, wait_for)
        return self

    def _repr_svg_(self) -> str | None:
        drawing = self._drawings.get((None, 0))
        return None if drawing is None else drawing.svg
