"""Typed clients of the API: `Client` blocks, `AsyncClient` has the same methods as coroutines.

client = Client()
gnn = client.register(model, graphs, name="motifs")
answers = client.explain(gnn, graphs[0]).wait()
answers.draw().save("motif.svg")
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from d4explain.client.address import api_address, api_key_headers
from d4explain.client.evaluations.operations import EvaluationOperations
from d4explain.client.graph_formats.posted_graphs import Graphs
from d4explain.client.operations.data_life import DataLifeOperations
from d4explain.client.operations.datasets.datasets import DatasetOperations
from d4explain.client.operations.explanation_requests import (
    counterfactual_body,
    get_explanation,
    inputs_of,
    request_explanation,
)
from d4explain.client.operations.explanations import ExplanationOperations
from d4explain.client.operations.gnns import GnnOperations
from d4explain.client.operations.jobs import JobOperations
from d4explain.client.operations.keys import KeyOperations
from d4explain.client.operations.receipts import ReceiptOperations
from d4explain.client.operations.resource_paths import DatasetReference, GnnReference
from d4explain.client.operations.webhooks import WebhookOperations
from d4explain.client.options import CounterfactualOptions
from d4explain.client.resources import Explanation
from d4explain.client.results.answers import Answers, AsyncAnswers
from d4explain.client.transport.connections import (
    AsyncConnection,
    BlockingConnection,
    ConnectionOptions,
)
from d4explain.client.transport.http_transport import ATTEMPTS, HttpTransport
from d4explain.client.transport.operation import AsyncCaller, BlockingCaller, run

TIMEOUT_SECONDS = 60.0  # of one request, not of waiting for a job


class Operations(
    GnnOperations,
    DatasetOperations,
    ExplanationOperations,
    JobOperations,
    ReceiptOperations,
    KeyOperations,
    WebhookOperations,
    DataLifeOperations,
    EvaluationOperations,
):
    """The methods that both clients have."""

    @property
    def url(self) -> str:
        return self._transport.url

    async def _explain(
        self,
        gnn: GnnReference,
        graph: Graphs,
        dataset: DatasetReference | None,
        options: Mapping[str, Any],
    ) -> Explanation:
        body = counterfactual_body(inputs_of(gnn, dataset), graph, options)
        return await request_explanation(self._transport, body, options)

    async def _find(self, explanation: Explanation | str) -> Explanation:
        if isinstance(explanation, Explanation):
            return explanation
        return await get_explanation(self._transport, explanation)


class Client(Operations, BlockingCaller):
    """A client of one d4explain API; use it as a context manager or call `close`.

    Without `url` it takes D4_URL, or finds the stack that runs on this machine. A request that the
    API cannot take now is sent again, `attempts` times at most, when `Retry-After` allows. `proxy`
    is the URL of an HTTP proxy; `headers` are sent with every request, for example to a gateway.
    Without `api_key` it takes D4_API_KEY, if there is one.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        attempts: int = ATTEMPTS,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        options = ConnectionOptions(
            api_address(url).rstrip("/"), timeout, proxy, api_key_headers(headers, api_key)
        )
        connection = BlockingConnection(options, transport)
        self._transport = HttpTransport(options.url, connection, attempts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        run(self._transport.connection.close())

    def explain(
        self,
        gnn: GnnReference,
        graph: Graphs = None,
        *,
        dataset: DatasetReference | None = None,
        **options: Unpack[CounterfactualOptions],
    ) -> Answers:
        """Ask which edits of a graph change the prediction; `wait` of the answers returns them.

        `graph` is a PyG Data or Batch, a NetworkX graph, a SMILES text, a dict, or a list of these.
        `dataset` is the reference set: by default the newest with the name of the GNN. The options
        are those of `explain_counterfactual`.
        """
        return Answers(self._transport, run(self._explain(gnn, graph, dataset, options)))

    def answers(self, explanation: Explanation | str) -> Answers:
        """The answers of an explanation that exists, such as one of `explain_class`."""
        return Answers(self._transport, run(self._find(explanation)))


class AsyncClient(Operations, AsyncCaller):
    """Like `Client`, with coroutines; use it as an asynchronous context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        attempts: int = ATTEMPTS,
        proxy: str | None = None,
        headers: Mapping[str, str] | None = None,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        options = ConnectionOptions(
            api_address(url).rstrip("/"), timeout, proxy, api_key_headers(headers, api_key)
        )
        connection = AsyncConnection(options, transport)
        self._transport = HttpTransport(options.url, connection, attempts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.connection.close()

    async def explain(
        self,
        gnn: GnnReference,
        graph: Graphs = None,
        *,
        dataset: DatasetReference | None = None,
        **options: Unpack[CounterfactualOptions],
    ) -> AsyncAnswers:
        """Like `Client.explain`."""
        return AsyncAnswers(self._transport, await self._explain(gnn, graph, dataset, options))

    async def answers(self, explanation: Explanation | str) -> AsyncAnswers:
        """Like `Client.answers`."""
        return AsyncAnswers(self._transport, await self._find(explanation))
