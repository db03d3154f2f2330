"""What is read from and written to a model registry of MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from d4explain.errors import D4Error
from d4explain.mlflow.mlflow_import import mlflow_module
from d4explain.mlflow.run_files import MAX_FILE_BYTES, joined

# The request may succeed later; other codes of MLflow are final.
_TRANSIENT = frozenset(
    {"INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED"}
)
_PAGE = 200


class RegistryError(D4Error):
    """MLflow refused a request; repeating it would not help."""


class RegistryUnavailableError(D4Error):
    """MLflow could not answer now."""

    hint = "check --tracking-uri and that the MLflow server runs"


@dataclass(frozen=True)
class ModelVersion:
    name: str
    version: str
    run_id: str | None
    created_at: int  # milliseconds
    tags: Mapping[str, str]
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


@dataclass(frozen=True)
class Run:
    id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)


class Registry(Protocol):
    """The part of MLflow that is used here."""

    def versions(self, names: Sequence[str]) -> Iterator[ModelVersion]:
        """All versions of these models, or of all if there are no names; oldest first."""

    def run(self, run_id: str) -> Run: ...

    def file_names(self, run_id: str, folder: str) -> set[str]:
        """Names of the files in a folder of the run's artifacts."""

    def read_file(self, run_id: str, path: str) -> bytes: ...

    def write_file(self, run_id: str, path: str, content: bytes) -> None: ...

    def log_metrics(
        self, run_id: str, metrics: Mapping[str, float], *, timestamp: int, step: int
    ) -> None: ...

    def tag(self, version: ModelVersion, tags: Mapping[str, str | None]) -> None:
        """Set tags of a version; None removes one."""


class MlflowRegistry:
    """A registry behind a tracking URI."""

    def __init__(self, tracking_uri: str, registry_uri: str | None = None) -> None:
        self._mlflow = mlflow_module()
        self._client = self._mlflow.MlflowClient(tracking_uri, registry_uri or tracking_uri)

    def versions(self, names: Sequence[str]) -> Iterator[ModelVersion]:
        for name, aliases in self._models(names):
            quoted = name.replace("'", "''")
            versions = list(self._pages("search_model_versions", f"name='{quoted}'"))
            for found in sorted(versions, key=lambda one: int(one.creation_timestamp)):
                yield ModelVersion(
                    name=name,
                    version=str(found.version),
                    run_id=found.run_id or None,
                    created_at=int(found.creation_timestamp),
                    tags=dict(found.tags),
                    aliases=tuple(
                        sorted(a for a, number in aliases.items() if number == str(found.version))
                    ),
                )

    def _models(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Names of models with their aliases; a search for versions may leave aliases out."""
        if names:
            found = [self._call("get_registered_model", name) for name in names]
        else:
            found = list(self._pages("search_registered_models", None))
        for model in found:
            yield model.name, {alias: str(number) for alias, number in model.aliases.items()}

    def _pages(self, method: str, filter_string: str | None) -> Iterator[Any]:
        token = None
        while True:
            page = self._call(
                method, filter_string=filter_string, max_results=_PAGE, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def run(self, run_id: str) -> Run:
        found = self._call("get_run", run_id)
        return Run(run_id, dict(found.data.tags), dict(found.data.params))

    def file_names(self, run_id: str, folder: str) -> set[str]:
        files = self._call("list_artifacts", run_id, folder or None)
        return {
            item.path.removeprefix(joined(folder, "")).strip("/")
            for item in files
            if not item.is_dir
        }

    def read_file(self, run_id: str, path: str) -> bytes:
        folder, _, _ = path.rpartition("/")
        for item in self._call("list_artifacts", run_id, folder or None):
            if item.path == path and (item.file_size or 0) > MAX_FILE_BYTES:
                raise RegistryError(
                    f"the artifact {path} has {item.file_size:,} bytes; at most {MAX_FILE_BYTES:,} "
                    "are read"
                )
        with TemporaryDirectory(prefix="d4explain-") as local:
            return Path(self._call("download_artifacts", run_id, path, local)).read_bytes()

    def write_file(self, run_id: str, path: str, content: bytes) -> None:
        folder, _, name = path.rpartition("/")
        with TemporaryDirectory(prefix="d4explain-") as local:
            file = Path(local) / name
            file.write_bytes(content)
            self._call("log_artifact", run_id, str(file), folder or None)

    def log_metrics(
        self, run_id: str, metrics: Mapping[str, float], *, timestamp: int, step: int
    ) -> None:
        """The same time and step again writes nothing new."""
        metric = self._mlflow.entities.Metric
        rows = [metric(key, value, timestamp, step) for key, value in metrics.items()]
        self._call("log_batch", run_id, metrics=rows)

    def tag(self, version: ModelVersion, tags: Mapping[str, str | None]) -> None:
        for key, value in tags.items():
            if value is not None:
                self._call("set_model_version_tag", version.name, version.version, key, value)
            elif key in version.tags:
                self._call("delete_model_version_tag", version.name, version.version, key)

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        try:
            return getattr(self._client, method)(*args, **options)
        except self._mlflow.MlflowException as error:
            text = f"MLflow: {error}"
            if str(error.error_code) in _TRANSIENT:
                raise RegistryUnavailableError(text) from error
            raise RegistryError(text) from error
        except OSError as error:  # connection errors of requests are OSErrors, too
            raise RegistryUnavailableError(f"MLflow: {error}") from error
