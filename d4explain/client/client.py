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
from typing import Any, Self
from urllib.parse import quote

import httpx

from d4explain.client.errors import RefusedError, UnsuccessfulJobError
from d4explain.client.http_transport import ATTEMPTS, HttpTransport
from d4explain.client.job_waiting import OnProgress, get_job, wait_for_job
from d4explain.client.large_graph_upload import upload_large_graph
from d4explain.client.registration_form import Form, registration_form
from d4explain.client.resources import (
    Dataset,
    Denoiser,
    Estimate,
    Explanation,
    Gnn,
    Health,
    Job,
    Predictions,
)
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import (
    ClassResult,
    CounterfactualResult,
    NodeId,
    NodePredictions,
    Prediction,
    PredictionResult,
)

DEFAULT_URL = "http://127.0.0.1:8400"
GraphJson = Mapping[str, Any]  # node-link or PyG dict, as in the API's documentation


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
        """The state of database, broker and workers, also if the server is not ready."""
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

        A rejected GNN is returned with its report. `samples` is {"graphs": […]}; each graph has a
        label, or labels of its nodes if the GNN classifies nodes.
        """
        form = registration_form(
            name, spec=spec, weights=weights, samples=samples, description=description, tags=tags
        )
        return self._register(form)

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
        return self._register(form)

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
        """Like `register_gnn`, for a GNN behind a URL, if the deployment allows that.

        Its spec has `features` and `classes`, but no layers.
        """
        form = registration_form(
            name,
            spec=spec,
            predict_url=predict_url,
            samples=samples,
            description=description,
            tags=tags,
        )
        return self._register(form)

    def gnn(self, gnn: str) -> Gnn:
        """One GNN. All methods accept `gnn_…`, `name@3`, `name@production` or `name`."""
        return Gnn.model_validate(self._transport.get(_gnn_path(gnn)))

    def gnns(self, name: str | None = None) -> Iterator[Gnn]:
        """All GNNs, or all versions of one name; newest first."""
        filters = {} if name is None else {"name": name}
        return (Gnn.model_validate(item) for item in self._transport.items("/v1/gnns", **filters))

    def change_gnn(self, gnn: str, **changes: Any) -> Gnn:
        """Set `description` or merge `tags`; a tag with the value None is removed."""
        return Gnn.model_validate(
            self._transport.send("PATCH", _gnn_path(gnn), json=changes).json()
        )

    def set_alias(self, name: str, alias: str, version: int) -> Gnn:
        """Point `name@alias` at this version."""
        path = f"{_gnn_path(name)}/aliases/{quote(alias, safe='')}"
        return Gnn.model_validate(
            self._transport.send("PUT", path, json={"version": version}).json()
        )

    def remove_alias(self, name: str, alias: str) -> None:
        self._transport.send("DELETE", f"{_gnn_path(name)}/aliases/{quote(alias, safe='')}")

    def delete_gnn(self, gnn: str) -> None:
        """Delete by id or `name@version`; refused while a job uses it or an alias points at it."""
        self._transport.send("DELETE", _gnn_path(gnn))

    def create_dataset(
        self, name: str, graphs: Sequence[GraphJson], gnn: str | None = None
    ) -> Dataset:
        """Create a reference set; for molecules, `{"smiles": …}`, `gnn` provides the featuriser."""
        body: dict[str, Any] = {"name": name, "graphs": [dict(graph) for graph in graphs]}
        if gnn is not None:
            body["gnn"] = gnn
        return Dataset.model_validate(
            self._transport.send("POST", "/v1/datasets", json=body).json()
        )

    def upload_large_graph(self, name: str, file: Path, features: Path | None = None) -> Dataset:
        """Store one large graph, .npz, .ndjson or .parquet, to explain its nodes.

        A Parquet file is an edge list with the integer columns `source` and `target`. `features` is
        then a second Parquet file with one row per node, ordered by node number. It has a list
        column `x`, or one numeric column per feature.
        """
        return upload_large_graph(self._transport, name, file, features)

    def datasets(self) -> Iterator[Dataset]:
        return (Dataset.model_validate(item) for item in self._transport.items("/v1/datasets"))

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete a reference set and its denoisers; refused while a job uses it."""
        self._transport.send("DELETE", f"/v1/datasets/{dataset_id}")

    def predictions(self, gnn_id: str, graphs: Sequence[GraphJson]) -> list[Prediction]:
        """Predictions of a GNN that classifies graphs."""
        found = self._predicted(gnn_id, {"graphs": [dict(graph) for graph in graphs]})
        if any(isinstance(one, NodePredictions) for one in found):
            raise TypeError(f"{gnn_id} classifies nodes: ask for node_predictions")
        return [one for one in found if isinstance(one, Prediction)]

    def node_predictions(
        self, gnn_id: str, graph: GraphJson, nodes: Sequence[NodeId] | None = None
    ) -> dict[NodeId, Prediction]:
        """Predictions of a GNN that classifies nodes; by default for all nodes of the graph."""
        body: dict[str, Any] = {"graph": dict(graph)}
        if nodes is not None:
            body["nodes"] = list(nodes)
        (found,) = self._predicted(gnn_id, body)
        if not isinstance(found, NodePredictions):
            raise TypeError(f"{gnn_id} classifies graphs: ask for predictions")
        return {prediction.node: prediction for prediction in found.nodes}

    # Denoisers and explanations

    def train_denoiser(
        self,
        gnn_id: str,
        dataset_id: str,
        objective: str = "counterfactual",
        config: DenoiserConfig | None = None,
    ) -> Denoiser:
        """The denoiser of a GNN and a reference set; trained only if it does not exist yet."""
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
        """Ask for the smallest realistic edits that change the prediction.

        `options` are those of POST /v1/explanations, such as preset="fast". explainer="search"
        trains no denoiser, so the answer comes at once, without likelihoods. A GNN that classifies
        nodes needs one graph and node="a" or nodes=["a", "b"]. If the reference set is one large
        graph, give no graph and the numbers of its nodes. max_queries=500 limits a black box.
        """
        return self._explain(_counterfactual(gnn_id, dataset_id, graphs, options))

    def estimate_counterfactual(
        self, gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], **options: Any
    ) -> Estimate:
        """The cost of `explain_counterfactual` with the same arguments; queues nothing."""
        body = _counterfactual(gnn_id, dataset_id, graphs, options)
        answer = self._transport.send(
            "POST", "/v1/explanations", json=body, params={"dry_run": "true"}
        )
        return Estimate.model_validate(answer.json())

    def explain_class(
        self, gnn_id: str, dataset_id: str, target_class: int, **options: Any
    ) -> Explanation:
        """Ask for graphs typical of a class; `options` are those of POST /v1/explanations."""
        body = {"kind": "class", "gnn": gnn_id, "dataset": dataset_id, **options}
        return self._explain({**body, "target_class": target_class})

    def explanation(self, explanation_id: str) -> Explanation:
        return Explanation.model_validate(self._transport.get(f"/v1/explanations/{explanation_id}"))

    def result(
        self,
        explanation: Explanation,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> CounterfactualResult | ClassResult:
        """Wait for the result of an explanation."""
        self.wait(explanation.job.id, on_progress=on_progress, timeout=timeout)
        finished = self.explanation(explanation.id)
        if finished.result is None:
            raise UnsuccessfulJobError(finished.job)
        return finished.result

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

        Every change calls `on_progress` with the job, or with the job it waits for. Follows the
        job's events, and polls if there are none. With `check`, a job that did not succeed raises
        `UnsuccessfulJobError`.
        """
        return wait_for_job(
            self._transport, job_id, on_progress=on_progress, timeout=timeout, check=check
        )

    def _predicted(
        self, gnn_id: str, body: Mapping[str, Any]
    ) -> list[Prediction] | list[NodePredictions]:
        answer = self._transport.send("POST", f"{_gnn_path(gnn_id)}/predictions", json=body).json()
        found = Predictions.model_validate(answer)
        if found.predictions is None:
            job = self.wait(found.job.id)
            return PredictionResult.model_validate(job.result).predictions
        return found.predictions

    def _register(self, form: Form) -> Gnn:
        answer = self._transport.send("POST", "/v1/gnns", files=form, accept=(422,))
        if answer.status_code == 422:
            return self._rejected(answer)
        gnn = answer.json()
        if gnn.get("state") == "probing":
            self.wait(gnn["job_id"], check=False)
            return self.gnn(gnn["id"])
        return Gnn.model_validate(gnn)

    def _explain(self, body: Mapping[str, Any]) -> Explanation:
        # The result may take minutes: do not wait in this request, but follow events.
        answer = self._transport.send(
            "POST", "/v1/explanations", json=body, headers={"Prefer": "wait=0"}
        )
        return Explanation.model_validate(answer.json())

    def _rejected(self, answer: httpx.Response) -> Gnn:
        problem = RefusedError.from_response(answer)
        gnn = problem.body.get("gnn") if isinstance(problem.body, dict) else None
        if gnn is None:
            raise problem
        return Gnn.model_validate(gnn)


def _counterfactual(
    gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], options: Mapping[str, Any]
) -> dict[str, Any]:
    body = {"kind": "counterfactual", "gnn": gnn_id, "dataset": dataset_id, **options}
    if len(graphs) == 1:
        body["graph"] = dict(graphs[0])
    elif graphs:
        body["graphs"] = [dict(graph) for graph in graphs]
    return body


def _gnn_path(reference: str) -> str:
    return f"/v1/gnns/{quote(reference, safe='@')}"
