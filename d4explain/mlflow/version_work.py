"""The work on one version of a model; its tags say how far it is, so any process can go on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from d4explain.client.client import Client
from d4explain.client.errors import RefusedError, RejectedGnnError, UnreachableError
from d4explain.client.operations.explanation_requests import Result
from d4explain.client.resources import Dataset, Explanation, Gnn
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import GnnState, JobState
from d4explain.contracts.results import ClassResult
from d4explain.errors import CommandError, D4Error
from d4explain.mlflow import run_files
from d4explain.mlflow.registry import ModelVersion, Registry, RegistryUnavailableError, Run
from d4explain.mlflow.result_metrics import (
    class_metrics,
    counterfactual_metrics,
    file_label,
    verdict,
    verdict_counts,
)
from d4explain.mlflow.run_files import artifact_folders, joined
from d4explain.mlflow.standard_set import COUNTERFACTUAL, StandardSet, Subjects
from d4explain.mlflow.version_record import (
    DONE,
    RESULTS,
    Tag,
    VersionRecord,
    VersionState,
    shortened,
)

Log = Callable[[str], None]
_NOT_FOUND = 404
_FORBIDDEN, _QUOTA = (401, 403), 429  # the key may get its rights, the quota may become free


@dataclass(frozen=True)
class LoggedGnn:
    """Where a run has a GNN, and what else it has there."""

    run: Run
    folder: str
    files: frozenset[str]
    tags: Mapping[str, str]  # of the version and the run

    def path(self, name: str) -> str:
        return joined(self.folder, name)


class VersionWork:
    def __init__(
        self,
        registry: Registry,
        client: Client,
        standard_set: StandardSet,
        log: Log,
        public_url: str | None = None,  # of the dashboard, for links; by default that of the API
    ) -> None:
        self._registry = registry
        self._client = client
        self._set = standard_set
        self._log = log
        self._url = (public_url or client.url).rstrip("/")

    def advance(self, version: ModelVersion) -> VersionState | None:
        """Does what can be done now; None if the run of the version has no GNN.

        Raises errors that may pass, such as a server that does not answer.
        """
        record = VersionRecord.of(version.tags)
        if record.state in DONE:
            return record.state
        try:
            return self._advance(version, record)
        except Exception as error:
            if is_transient(error):
                raise
            expected = isinstance(error, D4Error)
            self._fail(version, str(error) if expected else f"{type(error).__name__}: {error}")
            if not expected:
                raise
            return VersionState.FAILED

    def _advance(self, version: ModelVersion, record: VersionRecord) -> VersionState | None:
        found: LoggedGnn | None = None
        if record.state is None:
            found = self._find(version)
            if found is None:
                return None
            record = self._begin(version, record, found)
        gnn = self._gnn(version, record, found)
        if gnn.state is GnnState.PROBING:
            return VersionState.RUNNING
        if gnn.state is not GnnState.READY:
            raise RejectedGnnError(gnn)
        asked = self._asked(version, record, gnn, found)
        explanations = {label: self._explanation(asked[label]) for label in asked}
        if any(one is not None and not one.state.is_terminal for one in explanations.values()):
            return VersionState.RUNNING
        faults = {label: asked[label] for label, one in explanations.items() if one is None}
        present = {label: one for label, one in explanations.items() if one is not None}
        return self._finish(version, present, faults)

    # Finding and registering.

    def _find(self, version: ModelVersion) -> LoggedGnn | None:
        if version.run_id is None:
            return None
        run = self._registry.run(version.run_id)
        for folder in artifact_folders(version.tags, run.tags):
            files = frozenset(self._registry.file_names(run.id, folder))
            if {run_files.SPEC, run_files.WEIGHTS} <= files:
                return LoggedGnn(run, folder, files, {**run.tags, **version.tags})
        return None

    def _found(self, version: ModelVersion) -> LoggedGnn:
        found = self._find(version)
        if found is None:
            raise CommandError("the GNN is no longer among the artifacts of the run")
        return found

    def _begin(
        self, version: ModelVersion, record: VersionRecord, found: LoggedGnn
    ) -> VersionRecord:
        """A new attempt; the state is tagged last, so that a crash before begins another one."""
        attempt = record.attempt + 1
        self._registry.tag(version, {**dict.fromkeys(RESULTS), Tag.ATTEMPT: str(attempt)})
        self._registry.tag(version, {Tag.STATE: VersionState.RUNNING})
        where = found.folder or "the root of its artifacts"
        self._log(f"{version}: found a GNN in run {found.run.id}, {where}")
        return VersionRecord(VersionState.RUNNING, attempt, record.gnn, record.aliases)

    def _gnn(self, version: ModelVersion, record: VersionRecord, found: LoggedGnn | None) -> Gnn:
        if record.gnn is not None and (known := self._known(record.gnn)) is not None:
            return known
        found = found or self._found(version)
        name = found.tags.get(run_files.NAME_TAG) or version.name
        tags = {
            "mlflow.model": version.name[:200],
            "mlflow.version": version.version,
            "mlflow.run_id": found.run.id,
        }
        gnn = next(
            (
                one
                for one in self._client.gnns(name)
                if tags.items() <= one.tags.items() and one.state is not GnnState.REJECTED
            ),
            None,
        )
        if gnn is None:
            gnn = self._client.register_gnn(
                name,
                _json(self._read(found, run_files.SPEC), found.path(run_files.SPEC)),
                self._read(found, run_files.WEIGHTS),
                description=f"{version} of MLflow",
                tags=tags,
            )
        links: dict[str, str | None] = {
            Tag.GNN_VERSION: f"{gnn.name}@{gnn.version}",
            Tag.GNN_URL: self._page("gnns", gnn),
            Tag.GNN: gnn.id,  # last: with it, this step is done
        }
        self._registry.tag(version, links)
        self._log(f"{version}: registered as {gnn.name}@{gnn.version} ({gnn.id}), {gnn.state}")
        return gnn

    def _known(self, gnn_id: str) -> Gnn | None:
        """The GNN of an earlier attempt; None if it was rejected or deleted."""
        try:
            gnn = self._client.gnn(gnn_id)
        except RefusedError as error:
            if is_transient(error):
                raise
            return None
        return None if gnn.state is GnnState.REJECTED else gnn

    # Asking.

    def _asked(
        self, version: ModelVersion, record: VersionRecord, gnn: Gnn, found: LoggedGnn | None
    ) -> dict[str, str]:
        """Ids of the explanations by label, or why one was refused; asks for those that miss."""
        asked = dict(record.explanations)
        missing = [label for label in self._set.labels(gnn) if label not in asked]
        if not missing:
            return asked
        found = found or self._found(version)
        dataset = self._dataset(version, record, gnn, found)
        subjects = None
        if COUNTERFACTUAL in missing:
            subjects = self._subjects(gnn, dataset, found)
            self._registry.tag(version, {Tag.SUBJECTS: subjects.source})
        for label in missing:
            key = self._key(version, record, label)
            try:
                answer = self._set.request(self._client, gnn, dataset, label, subjects, key=key)
                asked[label] = answer.id
            except RefusedError as error:
                if is_transient(error):
                    raise
                asked[label] = f"refused: {error}"
            self._registry.tag(version, {Tag.EXPLANATIONS: json.dumps(asked)})
            of = f" of {subjects.source}" if label == COUNTERFACTUAL and subjects else ""
            self._log(f"{version}: asked {asked[label]} ({label}{of})")
        return asked

    def _explanation(self, asked: str) -> Explanation | None:
        """None if it was refused or deleted."""
        if not asked.startswith("exp_"):
            return None
        try:
            return self._client.explanation(asked)
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def _dataset(
        self, version: ModelVersion, record: VersionRecord, gnn: Gnn, found: LoggedGnn
    ) -> Dataset:
        if record.dataset is not None:
            return self._client.dataset(record.dataset)
        named = found.tags.get(run_files.DATASET_TAG) or found.run.params.get(run_files.DATASET_TAG)
        if named:
            dataset = self._client.dataset(named)
        elif run_files.REFERENCE in found.files:
            graphs = self._graphs(found, run_files.REFERENCE)
            key = self._key(version, record, "dataset")
            dataset = self._client.create_dataset(gnn.name, graphs, gnn.id, idempotency_key=key)
        else:
            raise CommandError(
                f"the run has neither {found.path(run_files.REFERENCE)} nor the tag "
                f"{run_files.DATASET_TAG}; log_gnn(model, graphs) writes the first"
            )
        self._registry.tag(version, {Tag.DATASET_ID: dataset.id})
        return dataset

    def _subjects(self, gnn: Gnn, dataset: Dataset, found: LoggedGnn) -> Subjects:
        for name, source in ((run_files.HELDOUT, "held-out"), (run_files.REFERENCE, "reference")):
            if name in found.files:
                return Subjects.of_documents(gnn, self._graphs(found, name), source, self._set)
        return Subjects.of_dataset(self._client, gnn, dataset, self._set)

    def _graphs(self, found: LoggedGnn, name: str) -> list[dict[str, Any]]:
        document = _json(self._read(found, name), found.path(name))
        graphs = document.get("graphs")
        if not isinstance(graphs, list):
            raise CommandError(f'{found.path(name)} is not {{"graphs": […]}}')
        return graphs

    def _read(self, found: LoggedGnn, name: str) -> bytes:
        return self._registry.read_file(found.run.id, found.path(name))

    # Writing results.

    def _finish(
        self,
        version: ModelVersion,
        explanations: Mapping[str, Explanation],
        missing: Mapping[str, str],  # refused or deleted ones
    ) -> VersionState:
        """Logs what succeeded; repeating it after a crash writes the same again."""
        run_id = version.run_id
        assert run_id is not None
        folder = f"{run_files.FOLDER}/{file_label(version.name)}-v{version.version}"
        tags: dict[str, str | None] = {Tag.REPORTS: folder}
        faults = [f"{label}: {_missing(text)}" for label, text in missing.items()]
        notes = []
        for label, explanation in explanations.items():
            if explanation.state is not JobState.SUCCEEDED or explanation.result is None:
                message = explanation.job.error.message if explanation.job.error else ""
                faults.append(f"{label} ({explanation.id}) {explanation.state} {message}".strip())
                continue
            if explanation.reason:
                notes.append(f"{label}: {explanation.reason}")
            metrics = _metrics(label, explanation.result)
            self._registry.log_metrics(
                run_id, metrics, timestamp=version.created_at, step=_step(version)
            )
            self._write_reports(run_id, f"{folder}/{file_label(label)}", explanation)
            if isinstance(explanation.result, CounterfactualResult):
                tags[Tag.VERDICT] = verdict(explanation.result)
                tags[Tag.VERDICTS] = verdict_counts(explanation.result)
                tags[Tag.URL] = self._page("explanations", explanation)
        tags[Tag.NOTE] = shortened("; ".join(notes)) if notes else None
        tags[Tag.ERROR] = shortened("; ".join(faults)) if faults else None
        state = VersionState.FAILED if faults else VersionState.EXPLAINED
        self._registry.tag(version, tags)
        self._registry.tag(version, {Tag.STATE: state})
        self._log(f"{version}: {state}, {tags.get(Tag.VERDICTS) or tags[Tag.ERROR]}")
        return state

    def _write_reports(self, run_id: str, path: str, explanation: Explanation) -> None:
        result = explanation.result
        if isinstance(result, CounterfactualResult):
            for graph in range(len(result.answers)):
                report = self._client.report(explanation.id, graph)
                self._registry.write_file(run_id, f"{path}/graph-{graph}.html", report)
        else:
            report = self._client.report(explanation.id)
            self._registry.write_file(run_id, f"{path}.html", report)
        receipt = self._client.receipt(explanation.id)
        self._registry.write_file(run_id, f"{path}.receipt.json", receipt)

    def _fail(self, version: ModelVersion, message: str) -> None:
        self._registry.tag(version, {Tag.ERROR: shortened(message)})
        self._registry.tag(version, {Tag.STATE: VersionState.FAILED})
        self._log(f"{version}: failed: {message}")

    def _key(self, version: ModelVersion, record: VersionRecord, purpose: str) -> str:
        """The same for every process that does this attempt with the same options."""
        parts = [version.name, version.version, version.run_id, record.attempt, purpose]
        return hashlib.sha256(repr((parts, self._set)).encode()).hexdigest()

    def _page(self, noun: str, resource: Gnn | Explanation) -> str:
        """A page of the dashboard."""
        return f"{self._url}/{noun}/{resource.id}"


def is_transient(error: Exception) -> bool:
    """Whether the same may succeed later, without a change of the version or its run."""
    if isinstance(error, RefusedError):
        return error.status in _FORBIDDEN or error.status == _QUOTA or error.status >= 500
    return isinstance(error, UnreachableError | RegistryUnavailableError)


def _metrics(label: str, result: Result) -> dict[str, float]:
    """The standard set asks no global questions."""
    if isinstance(result, CounterfactualResult):
        return counterfactual_metrics(result)
    return class_metrics(label, result) if isinstance(result, ClassResult) else {}


def _step(version: ModelVersion) -> int:
    """Versions with the same run keep their metrics apart by the step."""
    return int(version.version) if version.version.isdecimal() else 0


def _missing(asked: str) -> str:
    return f"{asked} was deleted" if asked.startswith("exp_") else asked


def _json(content: bytes, path: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CommandError(f"the artifact {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CommandError(f"the artifact {path} is not a JSON object")
    return document
