"""A typed client of the API.

client = Client()
gnn = client.register_gnn("motifs", Path("spec.json"), Path("weights.safetensors"))
dataset = client.create_dataset("motifs", graphs)
explanation = client.explain_counterfactual(gnn.id, dataset.id, [graph])
result = client.result(explanation, on_progress=print)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from d4explain.client.answers import get_explanation, wait_for_answer
from d4explain.client.explanation_requests import (
    class_body,
    counterfactual_body,
    request_estimate,
    request_explanation,
)
from d4explain.client.gnn_registration import register_gnn, registration_form
from d4explain.client.http_transport import ATTEMPTS, HttpTransport
from d4explain.client.job_waiting import OnProgress, get_job, wait_for_job
from d4explain.client.large_graph_upload import upload_large_graph
from d4explain.client.predictions import predict_graphs, predict_nodes
from d4explain.client.resource_paths import alias_path, gnn_path
from d4explain.client.resources import (
    Dataset,
    Denoiser,
    Estimate,
    Explanation,
    Gnn,
    GraphJson,
    Health,
    Job,
)
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import ClassResult, NodeId, Prediction

DEFAULT_URL = "http://127.0.0.1:8400"


class Client:
    """A client of one d4explain API; use it as a context manager or call `close`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout: float = 60.0,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = HttpTransport(
            url, timeout=timeout, attempts=attempts, transport=transport
        )

    @property
    def url(self) -> str:
        return self._transport.url

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
        self._transport.close()

    def health(self) -> Health:
        """The state of database, broker and workers, even if the server is not ready."""
        return Health.model_validate(self._transport.send("GET", "/readyz", accept=(503,)).json())

    # GNNs and reference sets

    def register_gnn(
        self,
        name: str,
        spec: Mapping[str, Any] | Path,
        weights: bytes | Path,
        *,
        samples: Mapping[str, Any] | Path | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Gnn:
        """Register a version of a GNN and wait for its probe.

        Also returns a rejected GNN, with the report of its probe. `samples` is {"graphs": […]};
        each graph has a label, or labels of its nodes if the GNN classifies nodes.
        """
        form = registration_form(
            name, spec=spec, weights=weights, samples=samples, description=description, tags=tags
        )
        return register_gnn(self._transport, form)

    def register_archive(
        self,
        name: str,
        archive: bytes | Path,
        *,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Gnn:
        """Like `register_gnn`, from a zip file with spec.json and weights.safetensors."""
        form = registration_form(name, archive=archive, description=description, tags=tags)
        return register_gnn(self._transport, form)

    def register_black_box(
        self,
        name: str,
        spec: Mapping[str, Any] | Path,
        predict_url: str,
        *,
        samples: Mapping[str, Any] | Path | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Gnn:
        """Like `register_gnn`, for a GNN behind a URL, if the deployment allows black boxes.

        The spec has `features` and `classes`, but no layers.
        """
        form = registration_form(
            name,
            spec=spec,
            predict_url=predict_url,
            samples=samples,
            description=description,
            tags=tags,
        )
        return register_gnn(self._transport, form)

    def gnn(self, gnn: str) -> Gnn:
        """One GNN. All methods accept `gnn_…`, `name@3`, `name@production` or `name`."""
        return Gnn.model_validate(self._transport.get(gnn_path(gnn)))

    def gnns(self, name: str | None = None) -> Iterator[Gnn]:
        """All GNNs, or all versions of one name; newest first."""
        filters = {} if name is None else {"name": name}
        return (Gnn.model_validate(item) for item in self._transport.items("/v1/gnns", **filters))

    def change_gnn(self, gnn: str, **changes: Any) -> Gnn:
        """Set `description` or merge `tags`; a tag with the value None is removed."""
        return Gnn.model_validate(self._transport.send("PATCH", gnn_path(gnn), json=changes).json())

    def set_alias(self, name: str, alias: str, version: int) -> Gnn:
        """Point `name@alias` at this version."""
        answer = self._transport.send("PUT", alias_path(name, alias), json={"version": version})
        return Gnn.model_validate(answer.json())

    def remove_alias(self, name: str, alias: str) -> None:
        self._transport.send("DELETE", alias_path(name, alias))

    def delete_gnn(self, gnn: str) -> None:
        """Delete by id or `name@version`; refused while a job uses it or an alias points at it."""
        self._transport.send("DELETE", gnn_path(gnn))

    def create_dataset(
        self, name: str, graphs: Sequence[GraphJson], gnn: str | None = None
    ) -> Dataset:
        """Create a reference set; `gnn` provides the featuriser if the graphs are SMILES."""
        body: dict[str, Any] = {"name": name, "graphs": [dict(graph) for graph in graphs]}
        if gnn is not None:
            body["gnn"] = gnn
        return Dataset.model_validate(
            self._transport.send("POST", "/v1/datasets", json=body).json()
        )

    def upload_large_graph(self, name: str, file: Path, features: Path | None = None) -> Dataset:
        """Upload one large graph (.npz, .ndjson or .parquet) to explain its nodes.

        A Parquet file is an edge list with the integer columns `source` and `target`. `features` is
        then a second Parquet file with one row per node, ordered by node number. It has a list
        column `x`, or one numeric column per feature.
        """
        return upload_large_graph(self._transport, name, file, features)

    def datasets(self) -> Iterator[Dataset]:
        return (Dataset.model_validate(item) for item in self._transport.items("/v1/datasets"))

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete a reference set and what was trained for it; refused while a job uses it."""
        self._transport.send("DELETE", f"/v1/datasets/{dataset_id}")

    def predictions(self, gnn_id: str, graphs: Sequence[GraphJson]) -> list[Prediction]:
        """Predictions of a GNN that classifies graphs."""
        return predict_graphs(self._transport, gnn_id, graphs)

    def node_predictions(
        self, gnn_id: str, graph: GraphJson, nodes: Sequence[NodeId] | None = None
    ) -> dict[NodeId, Prediction]:
        """Predictions of a GNN that classifies nodes; by default for all nodes of the graph."""
        return predict_nodes(self._transport, gnn_id, graph, nodes)

    # Denoisers and explanations

    def train_denoiser(
        self,
        gnn_id: str,
        dataset_id: str,
        objective: str = "counterfactual",
        config: DenoiserConfig | None = None,
    ) -> Denoiser:
        """The denoiser of a GNN and a reference set; starts its training if it does not exist."""
        body: dict[str, Any] = {"gnn": gnn_id, "dataset": dataset_id, "objective": objective}
        if config is not None:
            body["config"] = config.model_dump(exclude_none=True)
        return Denoiser.model_validate(
            self._transport.send("POST", "/v1/denoisers", json=body).json()
        )

    def denoiser(self, denoiser_id: str) -> Denoiser:
        return Denoiser.model_validate(self._transport.get(f"/v1/denoisers/{denoiser_id}"))

    def explain_counterfactual(
        self, gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], **options: Any
    ) -> Explanation:
        """Ask for the smallest believable edits that change the prediction.

        `options` are fields of POST /v1/explanations, such as preset="fast". The first question
        about a GNN trains a denoiser and witnesses; `result(…, wait_for="provisional")` has an
        answer before. explainer="search" trains no denoiser; with aim="minimal" and judges="none"
        nothing is trained. A node classifier needs one graph and node="a" or nodes=["a", "b"]. If
        the reference set is one large graph, give no graph and the numbers of its nodes.
        max_queries=500 limits the graphs that are sent to a black box.
        """
        body = counterfactual_body(gnn_id, dataset_id, graphs, options)
        return request_explanation(self._transport, body)

    def estimate_counterfactual(
        self, gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], **options: Any
    ) -> Estimate:
        """The cost of `explain_counterfactual` with the same arguments; queues nothing."""
        body = counterfactual_body(gnn_id, dataset_id, graphs, options)
        return request_estimate(self._transport, body)

    def explain_class(
        self, gnn_id: str, dataset_id: str, target_class: int, **options: Any
    ) -> Explanation:
        """Ask for graphs typical of a class; `options` are fields of POST /v1/explanations."""
        body = class_body(gnn_id, dataset_id, target_class, options)
        return request_explanation(self._transport, body)

    def explanation(self, explanation_id: str) -> Explanation:
        return get_explanation(self._transport, explanation_id)

    def result(
        self,
        explanation: Explanation,
        *,
        wait_for: Literal["provisional", "final"] = "final",
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> CounterfactualResult | ClassResult:
        """Wait for an answer of an explanation.

        If networks have to be trained first, `wait_for="provisional"` returns the answer of a
        search, which comes at once; its `stage` says so and `final_adds` what is missing. If the
        training fails, the provisional answer is also what "final" returns.
        """
        stage = Stage(wait_for)
        answered = wait_for_answer(
            self._transport, explanation, stage, on_progress=on_progress, timeout=timeout
        )
        assert answered.result is not None
        return answered.result

    def drawing(self, explanation_id: str, **query: str | int) -> bytes:
        """The explanation drawn as SVG."""
        path = f"/v1/explanations/{explanation_id}"
        return self._transport.send("GET", path, params={"format": "svg", **query}).content

    # Jobs

    def job(self, job_id: str) -> Job:
        return get_job(self._transport, job_id)

    def jobs(self, **filters: str) -> Iterator[Job]:
        """All jobs, newest first; `filters` are state, kind and gnn."""
        return (Job.model_validate(item) for item in self._transport.items("/v1/jobs", **filters))

    def cancel(self, job_id: str) -> Job:
        return Job.model_validate(self._transport.send("POST", f"/v1/jobs/{job_id}/cancel").json())

    def retry(self, job_id: str) -> Job:
        """Start a new job that does the same work."""
        return Job.model_validate(self._transport.send("POST", f"/v1/jobs/{job_id}/retry").json())

    def wait(
        self,
        job_id: str,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> Job:
        """Wait until the job is finished, and return it.

        Calls `on_progress` after every change, with the job or with the job that it waits for.
        Follows the job's event stream, and polls if there is none. With `check`, a job that did
        not succeed raises `UnsuccessfulJobError`.
        """
        return wait_for_job(
            self._transport, job_id, on_progress=on_progress, timeout=timeout, check=check
        )
