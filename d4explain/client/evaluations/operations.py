"""Requests about evaluations and comparisons."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from d4explain.client.evaluations.resources import Comparison, Evaluation, EvaluationEstimate
from d4explain.client.job_waiting import OnProgress, wait_for_job
from d4explain.client.operations.resource_paths import (
    DatasetReference,
    GnnReference,
    reference_of,
)
from d4explain.client.options import ListFilters, Metadata, list_query
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.evaluations.gate import Gate
from d4explain.contracts.evaluations.requests import Metric, Noise
from d4explain.contracts.evaluations.rows import EvaluationRow
from d4explain.contracts.job_states import JobState
from d4explain.contracts.requests import Aim, Explainer, Preset

ReportFormat = Literal["html", "pdf", "json", "csv", "cyclonedx"]


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation, with the names of the API."""

    explainers: list[Explainer]
    metrics: list[Metric]
    count: int
    aim: Aim
    alternatives: int
    judges: list[str] | Literal["none"]
    constraints: dict[str, Any]
    preset: Preset
    stability_seeds: int
    seed: int
    denoiser: str | dict[str, Any]
    webhook: dict[str, str]
    metadata: Metadata


class EvaluationOperations:
    _transport: HttpTransport

    @Operation
    async def evaluate(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        test: DatasetReference | Mapping[str, float],
        **options: Unpack[EvaluationOptions],
    ) -> Evaluation:
        """Start an evaluation on a test set, or on `{"held_out": 0.2}` of the reference set.

        The options are those of the API; `wait_for_evaluation` waits for the figures.
        """
        body = _body(gnn, dataset, test, options)
        answer = await self._transport.send("POST", "/v1/evaluations", json=body)
        return Evaluation.model_validate(answer.json())

    @Operation
    async def estimate_evaluation(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        test: DatasetReference | Mapping[str, float],
        **options: Unpack[EvaluationOptions],
    ) -> EvaluationEstimate:
        """What `evaluate` with these arguments would cost; starts nothing."""
        body = _body(gnn, dataset, test, options)
        answer = await self._transport.send(
            "POST", "/v1/evaluations", json=body, params={"dry_run": "true"}
        )
        return EvaluationEstimate.model_validate(answer.json())

    @Operation
    async def evaluation(self, evaluation_id: str) -> Evaluation:
        """One evaluation with its figures, if it has succeeded."""
        return await _get_evaluation(self._transport, evaluation_id)

    @Operation
    async def wait_for_evaluation(
        self,
        evaluation_id: str,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Evaluation:
        """Wait until an evaluation has its figures; raises if its job did not succeed."""
        found = await _get_evaluation(self._transport, evaluation_id)
        await wait_for_job(self._transport, found.job.id, on_progress=on_progress, timeout=timeout)
        return await _get_evaluation(self._transport, evaluation_id)

    @Listing
    async def evaluations(
        self,
        gnn: GnnReference | None = None,
        *,
        state: JobState | str | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Evaluation]:
        """All evaluations, or those of a GNN, a state or filters; newest first.

        They come without their figures.
        """
        query = {"gnn": gnn and reference_of(gnn), "state": state}
        async for item in self._transport.items("/v1/evaluations", **query, **list_query(filters)):
            yield Evaluation.model_validate(item)

    @Listing
    async def evaluation_rows(
        self, evaluation_id: str, explainer: str | None = None
    ) -> AsyncIterator[EvaluationRow]:
        """The rows so far, by instance and explainer."""
        path = f"/v1/evaluations/{evaluation_id}/rows"
        async for item in self._transport.items(path, explainer=explainer):
            yield EvaluationRow.model_validate(item)

    @Operation
    async def evaluation_file(
        self,
        evaluation_id: str,
        format: Literal["csv", "parquet"] = "csv",  # noqa: A002
    ) -> bytes:
        """All rows as a CSV or a Parquet file."""
        answer = await self._transport.send(
            "GET", f"/v1/evaluations/{evaluation_id}/rows", params={"format": format}
        )
        return answer.content

    @Operation
    async def evaluation_report(
        self,
        evaluation_id: str,
        format: ReportFormat = "html",  # noqa: A002
        *,
        purpose: str | None = None,
        comparison: str | None = None,
    ) -> bytes:
        """The audit report as a file; `purpose` says what the GNN is for."""
        given = {"format": format, "purpose": purpose, "comparison": comparison}
        answer = await self._transport.send(
            "GET",
            f"/v1/evaluations/{evaluation_id}/report",
            params={name: value for name, value in given.items() if value is not None},
        )
        return answer.content

    @Operation
    async def evaluation_result(self, evaluation_id: str) -> bytes:
        """The figures byte for byte, as signed test results name them."""
        answer = await self._transport.send("GET", f"/v1/evaluations/{evaluation_id}/result")
        return answer.content

    @Operation
    async def test_result(self, evaluation_id: str, gate: Gate) -> bytes:
        """What a gate finds about an evaluation, signed by the deployment: a JSON envelope."""
        answer = await self._transport.send(
            "POST",
            f"/v1/evaluations/{evaluation_id}/test-result",
            json=gate.model_dump(mode="json"),
        )
        return answer.content

    @Operation
    async def delete_evaluation(self, evaluation_id: str) -> None:
        """Delete an evaluation with its rows and jobs; refused before its jobs have ended."""
        await self._transport.send("DELETE", f"/v1/evaluations/{evaluation_id}")

    @Operation
    async def compare(
        self,
        baseline: str,
        candidate: str,
        *,
        explainer: str | None = None,
        candidate_explainer: str | None = None,
        retrained: Sequence[str] = (),
        noise: Noise | None = None,
        alpha: float | None = None,
        metadata: Metadata | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Comparison:
        """What moved between two evaluations beyond noise; waits for the result.

        Two GNNs need `retrained`: evaluations of other trainings of the baseline's GNN.
        """
        given = {
            "explainer": explainer,
            "candidate_explainer": candidate_explainer,
            "retrained": list(retrained) or None,
            "noise": noise,
            "alpha": alpha,
            "metadata": dict(metadata) if metadata else None,
        }
        body: dict[str, Any] = {"baseline": baseline, "candidate": candidate}
        body |= {name: value for name, value in given.items() if value is not None}
        answer = await self._transport.send("POST", "/v1/comparisons", json=body)
        posted = Comparison.model_validate(answer.json())
        await wait_for_job(self._transport, posted.job.id, on_progress=on_progress, timeout=timeout)
        return await _get_comparison(self._transport, posted.id)

    @Operation
    async def comparison(self, comparison_id: str) -> Comparison:
        """One comparison with its result, if it has succeeded."""
        return await _get_comparison(self._transport, comparison_id)

    @Listing
    async def comparisons(
        self,
        evaluation: str | None = None,
        *,
        state: JobState | str | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Comparison]:
        """All comparisons, or those of an evaluation, a state or filters; newest first."""
        query = {"evaluation": evaluation, "state": state}
        async for item in self._transport.items("/v1/comparisons", **query, **list_query(filters)):
            yield Comparison.model_validate(item)

    @Operation
    async def delete_comparison(self, comparison_id: str) -> None:
        """Delete a comparison; the evaluations stay."""
        await self._transport.send("DELETE", f"/v1/comparisons/{comparison_id}")


async def _get_evaluation(transport: HttpTransport, evaluation_id: str) -> Evaluation:
    return Evaluation.model_validate(await transport.get(f"/v1/evaluations/{evaluation_id}"))


async def _get_comparison(transport: HttpTransport, comparison_id: str) -> Comparison:
    return Comparison.model_validate(await transport.get(f"/v1/comparisons/{comparison_id}"))


def _body(
    gnn: GnnReference,
    dataset: DatasetReference,
    test: DatasetReference | Mapping[str, float],
    options: EvaluationOptions,
) -> dict[str, Any]:
    return {
        "gnn": reference_of(gnn),
        "dataset": reference_of(dataset),
        "test": dict(test) if isinstance(test, Mapping) else reference_of(test),
        **options,
    }
