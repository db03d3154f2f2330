"""The loop of `d4explain mlflow`: looks at versions, does what can be done, waits."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass

from d4explain.client.errors import RefusedError
from d4explain.errors import D4Error
from d4explain.mlflow.aliases import AliasMirror
from d4explain.mlflow.registry import ModelVersion, Registry, RegistryError
from d4explain.mlflow.version_record import DONE, VersionRecord, VersionState
from d4explain.mlflow.version_work import VersionWork, is_transient

BUSY_SECONDS = 2.0  # between two looks at versions whose explanations are being computed
NEW_SECONDS = 3600.0  # a run may get its GNN so long after the version was made


@dataclass(frozen=True)
class Choice:
    """Which versions are explained."""

    models: tuple[str, ...] = ()  # none: all
    aliases: tuple[str, ...] = ()  # none: with any alias or none

    def includes(self, version: ModelVersion) -> bool:
        return not self.aliases or any(alias in self.aliases for alias in version.aliases)


class WakeUp:
    """Models to look at now; webhooks name them."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._condition = threading.Condition()

    def name(self, model: str) -> None:
        with self._condition:
            self._names.add(model)
            self._condition.notify()

    def wait(self, seconds: float) -> set[str]:
        """The models that were named; waits until there are some, at most this long."""
        with self._condition:
            self._condition.wait_for(lambda: bool(self._names), timeout=seconds)
            names, self._names = self._names, set()
        return names


class Follower:
    def __init__(
        self,
        registry: Registry,
        work: VersionWork,
        mirror: AliasMirror,
        choice: Choice,
        log: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._registry = registry
        self._work = work
        self._mirror = mirror
        self._choice = choice
        self._log = log
        self._now = now
        self._busy_seconds = busy_seconds
        self._without_gnn: dict[tuple[str, str], tuple[str, ...]] = {}  # with their aliases
        self.states: dict[tuple[str, str], VersionState] = {}  # of versions that were worked on

    def until_done(self, wake_up: WakeUp) -> None:
        """Looks at all versions until nothing is running."""
        busy = self.look(self._choice.models)
        while busy:
            wake_up.wait(self._busy_seconds)
            busy = self.look(busy)

    def forever(self, wake_up: WakeUp, interval: float) -> None:
        poll_at, busy, named = 0.0, set[str](), set[str]()
        while True:
            names: Collection[str] = named | busy
            is_poll = time.monotonic() >= poll_at
            if is_poll:
                names, poll_at = self._choice.models, time.monotonic() + interval
            try:
                busy = self.look(names, again=named) if is_poll or names else set()
            except D4Error as error:
                self._log(f"{error}; next try within {interval:.0f} s")
                busy = set()
            pause = max(0.0, poll_at - time.monotonic())
            named = self._chosen(wake_up.wait(min(pause, self._busy_seconds) if busy else pause))

    def look(self, models: Collection[str], again: Collection[str] = ()) -> set[str]:
        """One look at all versions of these models, or of all models; those that are not done.

        `again` are models whose versions without a GNN are looked at again. Raises the first error
        that may pass, after all other versions.
        """
        versions = [one for one in self._versions(models) if self._choice.includes(one)]
        busy, passing = set(), None
        for version in versions:
            if self._is_known_without_gnn(version) and version.name not in again:
                continue
            try:
                state = self._advanced(version)
            except RefusedError as error:
                self._log(f"{version}: {error}")
                passing = passing or error
                continue
            key = version.name, version.version
            if state is None:
                self._without_gnn[key] = version.aliases
                continue
            self._without_gnn.pop(key, None)
            if state is VersionState.RUNNING:
                busy.add(version.name)
        # The work has changed tags, such as the id of the GNN.
        names = {version.name for version in versions}
        if names:
            self._mirror.update(self._versions(names))
        if passing is not None:
            raise passing
        return busy

    def _advanced(self, version: ModelVersion) -> VersionState | None:
        was_done = VersionRecord.of(version.tags).state in DONE
        try:
            state = self._work.advance(version)
        except Exception as error:
            if is_transient(error):
                raise
            shown = error if isinstance(error, D4Error) else traceback.format_exc()
            self._log(f"{version}: {shown}")
            state = VersionState.FAILED
        if state is not None and not was_done:
            self.states[version.name, version.version] = state
        return state

    def _versions(self, models: Collection[str]) -> list[ModelVersion]:
        if not models:
            return list(self._registry.versions(()))
        found = []
        for name in sorted(models):
            try:
                found += list(self._registry.versions([name]))
            except RegistryError as error:
                self._log(f"{name}: {error}")
        return found

    def _chosen(self, names: Collection[str]) -> set[str]:
        """Webhooks may name models that nobody asked for."""
        return {name for name in names if not self._choice.models or name in self._choice.models}

    def _is_known_without_gnn(self, version: ModelVersion) -> bool:
        is_new = self._now() - version.created_at / 1000 < NEW_SECONDS
        known = self._without_gnn.get((version.name, version.version))
        return not is_new and known == version.aliases
