"""A registry in memory, which can crash at any write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from d4explain.mlflow.registry import ModelVersion, RegistryError, Run


class Crash(BaseException):
    """The process dies; nothing handles it."""


@dataclass
class MemoryRegistry:
    stored: dict[tuple[str, str], ModelVersion] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    metrics: set[tuple[str, str, float, int, int]] = field(default_factory=set)
    writes: int = 0
    crash_at: int | None = None  # the write before which, or after which, the process dies
    crash_after: bool = False

    def add(
        self,
        name: str,
        version: str,
        files: Mapping[str, bytes],
        *,
        tags: Mapping[str, str] | None = None,
        aliases: Sequence[str] = (),
    ) -> None:
        run_id = f"run of {name} {version}"
        self.runs[run_id] = Run(run_id, dict(tags or {}))
        self.files |= {(run_id, path): content for path, content in files.items()}
        self.stored[name, version] = ModelVersion(name, version, run_id, 0, {}, tuple(aliases))

    def tags(self, name: str, version: str) -> dict[str, str]:
        return dict(self.stored[name, version].tags)

    def give_alias(self, name: str, version: str, alias: str) -> None:
        for key, one in self.stored.items():
            if key[0] == name:
                kept = tuple(a for a in one.aliases if a != alias)
                given = (alias,) if key[1] == version else ()
                self.stored[key] = replace(one, aliases=kept + given)

    # The interface of a registry.

    def versions(self, names: Sequence[str]) -> Iterator[ModelVersion]:
        known = {name for name, _ in self.stored}
        for name in set(names) - known:
            raise RegistryError(f"MLflow: RESOURCE_DOES_NOT_EXIST: {name}")
        yield from [one for one in self.stored.values() if not names or one.name in names]

    def run(self, run_id: str) -> Run:
        return self.runs[run_id]

    def file_names(self, run_id: str, folder: str) -> set[str]:
        paths = {path for run, path in self.files if run == run_id}
        return {path.rpartition("/")[2] for path in paths if path.rpartition("/")[0] == folder}

    def read_file(self, run_id: str, path: str) -> bytes:
        return self.files[run_id, path]

    def write_file(self, run_id: str, path: str, content: bytes) -> None:
        with _Write(self):
            self.files[run_id, path] = content

    def log_metrics(
        self, run_id: str, metrics: Mapping[str, float], *, timestamp: int, step: int
    ) -> None:
        with _Write(self):
            rows = {(run_id, key, value, timestamp, step) for key, value in metrics.items()}
            self.metrics |= rows

    def tag(self, version: ModelVersion, tags: Mapping[str, str | None]) -> None:
        for name, value in tags.items():
            with _Write(self):
                stored = self.stored[version.name, version.version]
                changed = {str(key): text for key, text in stored.tags.items() if key != name}
                if value is not None:
                    changed[str(name)] = str(value)
                self.stored[version.name, version.version] = replace(stored, tags=changed)


@dataclass
class _Write:
    registry: MemoryRegistry

    def __enter__(self) -> None:
        self.registry.writes += 1
        if self.registry.writes == self.registry.crash_at and not self.registry.crash_after:
            raise Crash

    def __exit__(self, *_: object) -> None:
        if self.registry.writes == self.registry.crash_at and self.registry.crash_after:
            raise Crash
