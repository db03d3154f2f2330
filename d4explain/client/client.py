"""A small typed client of the API.

client = Client()
gnn = client.register_gnn("motifs", Path("spec.json"), Path("weights.safetensors"))
dataset = client.create_dataset("motifs", graphs)
explanation = client.explain_counterfactual(gnn.id, dataset.id, [graph])
result = client.result(explanation, on_progress=print)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from d4explain.client.errors import (
    RefusedError,
    UnreachableError,
    UnsuccessfulJobError,
    WaitTimeoutError,
)
from d4explain.client.events import Event
from d4explain.client.http_transport import ATTEMPTS, UNAVAILABLE, FileChunks, Wire
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
    Progress,
)
from d4explain.contracts.job_states import JobState
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
OnProgress = Callable[[Job], None]

FIRST_POLL_SECONDS = 0.1
LONGEST_POLL_SECONDS = 2.0
RESTART_SECONDS = 30.0
UPLOAD_SECONDS = 600.0  # for the answer to a large graph, which is read before it comes
_LARGE_FORMS = {".npz": "application/x-npz", ".ndjson": "application/x-ndjson"}
_PARQUET = ".parquet"  # which this side turns into npz


class Client:
    """Speaks to one d4explain API; use it as a context manager or call `close`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout: float = 60.0,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._wire = Wire(url, timeout=timeout, attempts=attempts, transport=transport)

    @property
    def url(self) -> str:
        return self._wire.url

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
        self._wire.close()

    def health(self) -> Health:
        """Whether database, broker and workers are there; also of a server that is not ready."""
        return Health.model_validate(self._wire.send("GET", "/readyz", accept=(503,)).json())

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
        """Registers a version of a GNN and waits for its probe.

        A rejected one comes back with its report. `samples` is {"graphs": […]}, each with a label,
        or with labels of its nodes if the GNN classifies those.
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
        """As `register_gnn`, from a zip file with spec.json and weights.safetensors."""
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
        """As `register_gnn`, of a GNN that is asked at a URL, where the deployment allows that.

        Its spec has `features` and `classes`, and no layers.
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
        """By `gnn_…`, `name@3`, `name@production` or `name`, as everywhere a GNN is asked for."""
        return Gnn.model_validate(self._wire.get(_gnn_path(gnn)))

    def gnns(self, name: str | None = None) -> Iterator[Gnn]:
        """All GNNs, or all versions of one name; newest first."""
        filters = {} if name is None else {"name": name}
        return (Gnn.model_validate(item) for item in self._wire.items("/v1/gnns", **filters))

    def change_gnn(self, gnn: str, **changes: Any) -> Gnn:
        """Sets `description` or merges `tags`, of which None takes one away."""
        return Gnn.model_validate(self._wire.send("PATCH", _gnn_path(gnn), json=changes).json())

    def set_alias(self, name: str, alias: str, version: int) -> Gnn:
        """Makes `name@alias` stand for this version."""
        path = f"{_gnn_path(name)}/aliases/{quote(alias, safe='')}"
        return Gnn.model_validate(self._wire.send("PUT", path, json={"version": version}).json())

    def remove_alias(self, name: str, alias: str) -> None:
        self._wire.send("DELETE", f"{_gnn_path(name)}/aliases/{quote(alias, safe='')}")

    def delete_gnn(self, gnn: str) -> None:
        """By id or `name@version`; refused while jobs use it or an alias names it."""
        self._wire.send("DELETE", _gnn_path(gnn))

    def create_dataset(
        self, name: str, graphs: Sequence[GraphJson], gnn: str | None = None
    ) -> Dataset:
        """For molecules, `{"smiles": …}`, `gnn` says whose featuriser reads them."""
        body: dict[str, Any] = {"name": name, "graphs": [dict(graph) for graph in graphs]}
        if gnn is not None:
            body["gnn"] = gnn
        return Dataset.model_validate(self._wire.send("POST", "/v1/datasets", json=body).json())

    def upload_large_graph(self, name: str, file: Path, features: Path | None = None) -> Dataset:
        """Stores one large graph, .npz, .ndjson or .parquet, whose nodes can then be asked about.

        Parquet is a list of edges, in the integer columns `source` and `target`. `features` is then
        a second such file with one row per node, in the order of their numbers: a list column `x`,
        or numeric columns, which are taken in their order.
        """
        if features is not None and {file.suffix, features.suffix} != {_PARQUET}:
            raise ValueError(
                f"features are a {_PARQUET} file beside a {_PARQUET} list of edges, "
                f"not {features.name} beside {file.name}"
            )
        if file.suffix == _PARQUET:
            from d4explain.client.parquet import as_npz  # noqa: PLC0415 - other calls need no NumPy

            with as_npz(file, features) as npz:
                return self._upload(name, npz)
        return self._upload(name, file)

    def datasets(self) -> Iterator[Dataset]:
        return (Dataset.model_validate(item) for item in self._wire.items("/v1/datasets"))

    def delete_dataset(self, dataset_id: str) -> None:
        """With the denoisers that were trained on it; refused while jobs use it."""
        self._wire.send("DELETE", f"/v1/datasets/{dataset_id}")

    def predictions(self, gnn_id: str, graphs: Sequence[GraphJson]) -> list[Prediction]:
        """What a GNN that classifies graphs says about them."""
        found = self._predicted(gnn_id, {"graphs": [dict(graph) for graph in graphs]})
        if any(isinstance(one, NodePredictions) for one in found):
            raise TypeError(f"{gnn_id} classifies nodes: ask for node_predictions")
        return [one for one in found if isinstance(one, Prediction)]

    def node_predictions(
        self, gnn_id: str, graph: GraphJson, nodes: Sequence[NodeId] | None = None
    ) -> dict[NodeId, Prediction]:
        """What a GNN that classifies nodes says about those of a graph, by default all."""
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
        """The denoiser of these, trained only if it does not exist yet."""
        body: dict[str, Any] = {"gnn": gnn_id, "dataset": dataset_id, "objective": objective}
        if config is not None:
            body["config"] = config.model_dump(exclude_none=True)
        return Denoiser.model_validate(self._wire.send("POST", "/v1/denoisers", json=body).json())

    def denoiser(self, denoiser_id: str) -> Denoiser:
        return Denoiser.model_validate(self._wire.get(f"/v1/denoisers/{denoiser_id}"))

    def explain_counterfactual(
        self, gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], **options: Any
    ) -> Explanation:
        """Asks for the smallest realistic changes.

        `options` as in POST /v1/explanations, such as preset="fast" or
        explainer="d4-paper"; a GNN that classifies nodes
        needs one graph and node="a" or nodes=["a", "b"], or no graph and nodes of the data set by
        their numbers, if that is one large graph; a black box may get max_queries=500.
        """
        return self._explain(_counterfactual(gnn_id, dataset_id, graphs, options))

    def estimate_counterfactual(
        self, gnn_id: str, dataset_id: str, graphs: Sequence[GraphJson], **options: Any
    ) -> Estimate:
        """What `explain_counterfactual` of the same would take; nothing is queued."""
        body = _counterfactual(gnn_id, dataset_id, graphs, options)
        answer = self._wire.send("POST", "/v1/explanations", json=body, params={"dry_run": "true"})
        return Estimate.model_validate(answer.json())

    def explain_class(
        self, gnn_id: str, dataset_id: str, target_class: int, **options: Any
    ) -> Explanation:
        """Asks what a typical graph of a class looks like to the GNN; `options` as above."""
        body = {"kind": "class", "gnn": gnn_id, "dataset": dataset_id, **options}
        return self._explain({**body, "target_class": target_class})

    def explanation(self, explanation_id: str) -> Explanation:
        return Explanation.model_validate(self._wire.get(f"/v1/explanations/{explanation_id}"))

    def result(
        self,
        explanation: Explanation,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> CounterfactualResult | ClassResult:
        """Waits for an explanation's answer."""
        self.wait(explanation.job.id, on_progress=on_progress, timeout=timeout)
        finished = self.explanation(explanation.id)
        if finished.result is None:
            raise UnsuccessfulJobError(finished.job)
        return finished.result

    def drawing(self, explanation_id: str, **query: str | int) -> bytes:
        """The explanation's picture as SVG."""
        path = f"/v1/explanations/{explanation_id}"
        return self._wire.send("GET", path, params={"format": "svg", **query}).content

    # Jobs

    def job(self, job_id: str) -> Job:
        return Job.model_validate(self._wire.get(f"/v1/jobs/{job_id}"))

    def jobs(self, **filters: str) -> Iterator[Job]:
        """All jobs, newest first; `filters` are state, kind and gnn."""
        return (Job.model_validate(item) for item in self._wire.items("/v1/jobs", **filters))

    def cancel(self, job_id: str) -> Job:
        return Job.model_validate(self._wire.send("POST", f"/v1/jobs/{job_id}/cancel").json())

    def retry(self, job_id: str) -> Job:
        """A new job that does the same."""
        return Job.model_validate(self._wire.send("POST", f"/v1/jobs/{job_id}/retry").json())

    def wait(
        self,
        job_id: str,
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> Job:
        """The finished job; `on_progress` sees it, or the one it waits for, at every change.

        Listens to the job's events; where they cannot be had it asks again and again. With
        `check`, a job that did not succeed raises `UnsuccessfulJobError`.
        """
        report = on_progress or (lambda _job: None)
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_POLL_SECONDS
        last_event: str | None = None
        job = self.job(job_id)
        while True:
            report(job)
            if job.is_done:
                if check and job.state is not JobState.SUCCEEDED:
                    raise UnsuccessfulJobError(job)
                return job
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeoutError(job, timeout or 0)
            if job.waiting_for is not None:
                self.wait(job.waiting_for, on_progress=report, timeout=left, check=False)
                job = self._patiently(job_id)
                continue
            heard = last_event
            events = self._wire.events(f"/v1/jobs/{job_id}/events", last_event, left)
            with contextlib.suppress(httpx.HTTPError, RefusedError), contextlib.closing(events):
                for event in events:
                    last_event = event.id or last_event
                    job = _changed(job, event)
                    if job.is_done:
                        break  # reported with the whole job
                    report(job)
            if last_event != heard:
                pause = FIRST_POLL_SECONDS
            else:
                time.sleep(pause if left is None else min(pause, left))
                pause = min(2 * pause, LONGEST_POLL_SECONDS)
            job = self._patiently(job_id)

    def _patiently(self, job_id: str) -> Job:
        """The job; a server that is just being restarted is waited for."""
        gives_up = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return self.job(job_id)
            except UnreachableError:
                if time.monotonic() > gives_up:
                    raise
            except RefusedError as error:
                if error.status != UNAVAILABLE or time.monotonic() > gives_up:
                    raise
            time.sleep(FIRST_POLL_SECONDS)

    def _predicted(
        self, gnn_id: str, body: Mapping[str, Any]
    ) -> list[Prediction] | list[NodePredictions]:
        answer = self._wire.send("POST", f"{_gnn_path(gnn_id)}/predictions", json=body).json()
        found = Predictions.model_validate(answer)
        if found.predictions is None:
            job = self.wait(found.job.id)
            return PredictionResult.model_validate(job.result).predictions
        return found.predictions

    def _register(self, form: Form) -> Gnn:
        answer = self._wire.send("POST", "/v1/gnns", files=form, accept=(422,))
        if answer.status_code == 422:
            return self._rejected(answer)
        gnn = answer.json()
        if gnn.get("state") == "probing":
            self.wait(gnn["job_id"], check=False)
            return self.gnn(gnn["id"])
        return Gnn.model_validate(gnn)

    def _upload(self, name: str, file: Path) -> Dataset:
        if file.suffix not in _LARGE_FORMS:
            *forms, last = *_LARGE_FORMS, _PARQUET
            known = f"{', '.join(forms)} and {last}"
            raise ValueError(f"large graphs are read from {known} files, not from {file.name}")
        answer = self._wire.send(
            "POST",
            "/v1/datasets/large",
            params={"name": name},
            content=FileChunks(file),
            headers={"Content-Type": _LARGE_FORMS[file.suffix]},
            timeout=UPLOAD_SECONDS,
        )
        return Dataset.model_validate(answer.json())

    def _explain(self, body: Mapping[str, Any]) -> Explanation:
        # The answer may take minutes; who wants it waits by events, not on this request.
        answer = self._wire.send(
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


def _changed(job: Job, event: Event) -> Job:
    """The job as an event leaves it."""
    if event.type == "progress":
        return job.model_copy(update={"progress": Progress.model_validate(event.data)})
    if event.type == "state":
        return Job.model_validate({**job.model_dump(), **event.data})
    return job
