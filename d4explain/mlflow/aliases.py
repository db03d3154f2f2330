"""Gives the GNN of a version the aliases that the version has in the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from d4explain.client.client import Client
from d4explain.client.errors import RefusedError
from d4explain.mlflow.registry import ModelVersion, Registry
from d4explain.mlflow.version_record import Tag, VersionRecord
from d4explain.mlflow.version_work import is_transient


class AliasMirror:
    def __init__(self, registry: Registry, client: Client, log: Callable[[str], None]) -> None:
        self._registry = registry
        self._client = client
        self._log = log

    def update(self, versions: Sequence[ModelVersion]) -> None:
        """New aliases come first, so that one that has moved never points to nothing."""
        changed = [
            (version, record)
            for version in versions
            if (record := VersionRecord.of(version.tags)).gnn is not None
            and record.aliases != set(version.aliases)
        ]
        for version, record in changed:
            for alias in sorted(set(version.aliases) - record.aliases):
                self._change(version, record, alias, given=True)
        for version, record in changed:
            for alias in sorted(record.aliases - set(version.aliases)):
                self._change(version, record, alias, given=False)
            self._registry.tag(version, {Tag.ALIASES: ",".join(version.aliases)})

    def _change(
        self, version: ModelVersion, record: VersionRecord, alias: str, *, given: bool
    ) -> None:
        assert record.gnn is not None
        try:
            gnn = self._client.gnn(record.gnn)
            if given:
                self._client.set_alias(gnn.name, alias, gnn.version)
                self._log(f"{version}: {gnn.name}@{alias} is {gnn.name}@{gnn.version}")
            elif alias in gnn.aliases:  # else it has moved to another version
                self._client.remove_alias(gnn.name, alias)
                self._log(f"{version}: {gnn.name}@{alias} is removed")
        except RefusedError as error:
            if is_transient(error):
                raise
            self._log(f"{version}: the alias {alias} is not copied: {error}")
