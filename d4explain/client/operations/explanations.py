"""Requests about denoisers and explanations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal, Unpack

from d4explain.client.graph_formats.posted_graphs import Graphs
from d4explain.client.job_waiting import OnProgress
from d4explain.client.operations.answer_waiting import wait_for_answer
from d4explain.client.operations.explanation_requests import (
    PATH,
    Result,
    class_body,
    counterfactual_body,
    get_answer,
    get_explanation,
    global_body,
    graph_content,
    inputs_of,
    request_estimate,
    request_explanation,
)
from d4explain.client.operations.resource_paths import (
    DatasetReference,
    GnnReference,
    reference_of,
)
from d4explain.client.options import (
    ClassOptions,
    ClassReference,
    CounterfactualOptions,
    GlobalOptions,
    ListFilters,
    Metadata,
    RequestWebhook,
    list_query,
)
from d4explain.client.resources import Denoiser, Estimate, Explanation
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.job_states import ExplanationKind, JobState, Stage, TrainingState
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import NodeId
from d4explain.contracts.worker_calls import Nearest, WhatIf


class ExplanationOperations:
    _transport: HttpTransport

    @Operation
    async def train_denoiser(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        objective: str = "counterfactual",
        config: DenoiserConfig | Mapping[str, Any] | None = None,
        *,
        webhook: RequestWebhook | None = None,
        metadata: Metadata | None = None,
    ) -> Denoiser:
        """The denoiser of a GNN and a reference set; starts its training if it does not exist."""
        body: dict[str, Any] = {
            "gnn": reference_of(gnn),
            "dataset": reference_of(dataset),
            "objective": objective,
        }
        if config is not None:
            body["config"] = (
                config.model_dump(exclude_none=True)
                if isinstance(config, DenoiserConfig)
                else dict(config)
            )
        if webhook is not None:
            body["webhook"] = webhook
        if metadata:
            body["metadata"] = dict(metadata)
        answer = await self._transport.send("POST", "/v1/denoisers", json=body)
        return Denoiser.model_validate(answer.json())

    @Operation
    async def denoiser(self, denoiser_id: str) -> Denoiser:
        """One denoiser."""
        return Denoiser.model_validate(await self._transport.get(f"/v1/denoisers/{denoiser_id}"))

    @Listing
    async def denoisers(
        self,
        *,
        gnn: GnnReference | None = None,
        state: TrainingState | str | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Denoiser]:
        """All denoisers, or those of a GNN, of a state or of filters; newest first."""
        query = {"gnn": gnn and reference_of(gnn), "state": state, **list_query(filters)}
        async for item in self._transport.items("/v1/denoisers", **query):
            yield Denoiser.model_validate(item)

    @Operation
    async def explain_counterfactual(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        graphs: Graphs,
        **options: Unpack[CounterfactualOptions],
    ) -> Explanation:
        """Ask for the smallest believable edits that change the prediction.

        The first question about a GNN trains a denoiser and witnesses; `result(…,
        wait_for="provisional")` has an answer before. explainer="search" trains no denoiser; with
        aim="minimal" and judges="none" nothing is trained. A node classifier needs one graph and
        node="a" or nodes=["a", "b"]. If the reference set is one large graph, give no graph and
        the numbers of its nodes. max_queries=500 limits the graphs that are sent to a black box.
        """
        body = counterfactual_body(inputs_of(gnn, dataset), graphs, options)
        return await request_explanation(self._transport, body, options)

    @Operation
    async def estimate_counterfactual(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        graphs: Graphs,
        **options: Unpack[CounterfactualOptions],
    ) -> Estimate:
        """The cost of `explain_counterfactual` with the same arguments; queues nothing."""
        body = counterfactual_body(inputs_of(gnn, dataset), graphs, options)
        return await request_estimate(self._transport, body)

    @Operation
    async def explain_class(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        target_class: ClassReference,
        **options: Unpack[ClassOptions],
    ) -> Explanation:
        """Ask which patterns show a class, given by its number or name."""
        body = class_body(inputs_of(gnn, dataset), target_class, options)
        return await request_explanation(self._transport, body, options)

    @Operation
    async def explain_global(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        source_class: ClassReference,
        **options: Unpack[GlobalOptions],
    ) -> Explanation:
        """Ask for few graphs of another class that are near to many graphs of a class.

        They cover the graphs of the reference set that the GNN gives `source_class`. Nothing is
        trained.
        """
        body = global_body(inputs_of(gnn, dataset), source_class, options)
        return await request_explanation(self._transport, body, options)

    @Operation
    async def estimate_global(
        self,
        gnn: GnnReference,
        dataset: DatasetReference,
        source_class: ClassReference,
        **options: Unpack[GlobalOptions],
    ) -> Estimate:
        """The cost of `explain_global` with the same arguments; queues nothing."""
        body = global_body(inputs_of(gnn, dataset), source_class, options)
        return await request_estimate(self._transport, body)

    @Operation
    async def explanation(self, explanation_id: str) -> Explanation:
        """One explanation, with its result if its job has succeeded."""
        return await get_explanation(self._transport, explanation_id)

    @Listing
    async def explanations(
        self,
        *,
        kind: ExplanationKind | None = None,
        gnn: GnnReference | None = None,
        state: JobState | str | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Explanation]:
        """All explanations, or those of a kind, a GNN, a state or filters; newest first.

        They come without their results.
        """
        query = {"kind": kind, "gnn": gnn and reference_of(gnn), "state": state}
        async for item in self._transport.items(PATH, **query, **list_query(filters)):
            yield Explanation.model_validate(item)

    @Operation
    async def result(
        self,
        explanation: Explanation,
        *,
        wait_for: Literal["provisional", "final"] = "final",
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Wait for an answer of an explanation.

        If networks have to be trained first, `wait_for="provisional"` returns the answer of a
        search, which comes at once; its `stage` says so and `final_adds` what is missing. If the
        training fails, the provisional answer is also what "final" returns.
        """
        answered = await wait_for_answer(
            self._transport,
            explanation,
            Stage(wait_for),
            on_progress=on_progress,
            timeout=timeout,
        )
        assert answered.result is not None
        return answered.result

    @Operation
    async def answer(
        self, explanation_id: str, stage: Stage | Literal["provisional", "final"]
    ) -> Result:
        """One of the answers of an explanation; it never changes."""
        return await get_answer(self._transport, explanation_id, Stage(stage))

    @Operation
    async def what_if(
        self,
        explanation_id: str,
        toggles: Iterable[tuple[NodeId, NodeId]],
        graph: int = 0,
        gnn: str | None = None,
    ) -> WhatIf:
        """The GNN's answer for an explained graph if these pairs of nodes are toggled.

        An edge is removed, another pair gets an edge. Nothing is queued or stored. `gnn` asks
        another GNN, such as the next version.
        """
        body: dict[str, Any] = {"graph": graph, "toggles": [list(ends) for ends in toggles]}
        if gnn is not None:
            body["gnn"] = gnn
        answer = await self._transport.send("POST", f"{PATH}/{explanation_id}/what-if", json=body)
        return WhatIf.model_validate(answer.json())

    @Operation
    async def nearest(
        self, explanation_id: str, graph: int = 0, target_class: int | None = None
    ) -> Nearest:
        """The reference graph of another class that is nearest to an explained graph."""
        query = {"graph": graph} | ({} if target_class is None else {"target_class": target_class})
        path = f"{PATH}/{explanation_id}/nearest"
        answer = await self._transport.send("GET", path, params=query)
        return Nearest.model_validate(answer.json())

    @Operation
    async def drawing(
        self, explanation_id: str, graph: int | None = None, alternative: int = 0
    ) -> bytes:
        """One graph of an explanation drawn as SVG; without `graph` the first.

        Of global counterfactuals, all graphs without `graph`.
        """
        return await graph_content(self._transport, explanation_id, "svg", graph, alternative)

    @Operation
    async def graph_file(
        self,
        explanation_id: str,
        form: str,
        graph: int | None = None,
        alternative: int = 0,
        *,
        stage: Stage | Literal["provisional", "final"] | None = None,
    ) -> bytes:
        """One graph of an explanation as `svg`, `graphml`, `cytoscape` or `pyg`.

        `stage` names the answer; by default it is the newest.
        """
        chosen = None if stage is None else Stage(stage)
        return await graph_content(
            self._transport, explanation_id, form, graph, alternative, stage=chosen
        )

    @Operation
    async def report(self, explanation_id: str, graph: int = 0, alternative: int = 0) -> bytes:
        """A self-contained HTML report of one counterfactual, or of a class."""
        return await self._page(explanation_id, "report", graph, alternative)

    @Operation
    async def letter(self, explanation_id: str, graph: int = 0, alternative: int = 0) -> bytes:
        """A page in plain words about one counterfactual, for the person concerned; HTML."""
        return await self._page(explanation_id, "letter", graph, alternative)

    async def _page(self, explanation_id: str, kind: str, graph: int, alternative: int) -> bytes:
        path = f"{PATH}/{explanation_id}/{kind}"
        query = {"graph": graph, "alternative": alternative}
        return (await self._transport.send("GET", path, params=query)).content
