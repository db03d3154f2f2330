"""Random sequences of uploads, answers, deletions, holds and purges, against a small model."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.files import digest_of
from store.catalogue import datasets, explanations, gnns
from store.catalogue.data_life import deletions, holds
from store.catalogue.data_life.holds import Held
from store.database import quotas
from store.database.sessions import Database, read_clock
from store.errors import ArtifactDeleted, Conflict, OnHold
from store.retention import expiry, purges, unused_artifacts
from store.retention.expiry import Retention
from tests.store_rows import create_dataset, create_ready_gnn

TENANTS = st.sampled_from(["default", "other"])
CONTENTS = st.sampled_from([b"1", b"22", b"333"])  # shared by all kinds of resources
DAY = 24 * 3600.0


@dataclass
class Explained:
    id: str
    dataset: str
    contents: set[bytes]
    ended: bool = False


class DataLife(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.artifacts = ArtifactStore(str(root / "artifacts"))
        self.database = Database(
            f"sqlite:///{root / 'life.sqlite'}",
            artifact_size=lambda tenant, digest: self.artifacts.of(tenant).size(digest),
        )
        self.database.migrate()
        self.gnn: dict[str, str] = {}
        self.datasets: dict[str, dict[str, bytes]] = defaultdict(dict)
        self.explanations: dict[str, dict[str, Explained]] = defaultdict(dict)
        self.held: dict[str, set[str]] = defaultdict(set)  # explanations on hold
        self.stored: list[tuple[str, bytes]] = []  # uploads whose rows are not written yet
        for tenant in ("default", "other"):
            digest = self.artifacts.of(tenant).put(b"weights")
            with self.database.transaction() as session:
                self.gnn[tenant] = create_ready_gnn(session, digest, tenant=tenant).id

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()

    @rule(tenant=TENANTS, content=CONTENTS)
    def store_file(self, tenant: str, content: bytes) -> None:
        self.artifacts.of(tenant).put(content)
        self.stored.append((tenant, content))

    @rule()
    def write_row(self) -> None:
        """The row of an upload follows its file, perhaps after a purge."""
        if not self.stored:
            return
        tenant, content = self.stored.pop(0)
        try:
            with self.database.transaction() as session:
                row = create_dataset(session, digest_of(content), tenant=tenant)
        except ArtifactDeleted:
            return  # the client would send it again
        self.datasets[tenant][row.id] = content

    @rule(tenant=TENANTS, request=CONTENTS, data=st.data())
    def explain(self, tenant: str, request: bytes, data: st.DataObject) -> None:
        if not self.datasets[tenant]:
            return
        dataset_id = data.draw(st.sampled_from(sorted(self.datasets[tenant])))
        digest = self.artifacts.of(tenant).put(request)
        with self.database.transaction() as session:
            row, _ = explanations.create(
                session,
                kind="counterfactual",
                gnn=gnns.get(session, self.gnn[tenant], tenant),
                dataset=datasets.get(session, dataset_id, tenant),
                denoiser=None,
                train_job=None,
                request_digest=digest,
            )
        self.explanations[tenant][row.id] = Explained(row.id, dataset_id, {request})

    @rule(tenant=TENANTS, result=CONTENTS, cancels=st.booleans())
    def end_job(self, tenant: str, result: bytes, cancels: bool) -> None:
        running = [one for one in self.explanations[tenant].values() if not one.ended]
        if not running:
            return
        one = running[0]
        with self.database.transaction() as session:
            job_id = explanations.get(session, one.id, tenant).job_id
            if cancels:
                jobs.cancel(session, job_id, tenant)
            else:
                claim = jobs.claim(session, job_id, "worker", 60)
                assert claim is not None
                digest = self.artifacts.of(tenant).put(result)
                explanations.finish(session, claim, result_digest=digest)
                jobs.succeed(session, claim)
                one.contents.add(result)
        one.ended = True

    @rule(tenant=TENANTS, data=st.data())
    def delete_explanation(self, tenant: str, data: st.DataObject) -> None:
        if not self.explanations[tenant]:
            return
        one = self.explanations[tenant][
            data.draw(st.sampled_from(sorted(self.explanations[tenant])))
        ]
        expected = OnHold if one.id in self.held[tenant] else None if one.ended else Conflict
        if expected is None:
            with self.database.transaction() as session:
                deletions.delete_explanation(session, one.id, tenant)
            del self.explanations[tenant][one.id]
            return
        with pytest.raises(expected), self.database.transaction() as session:
            deletions.delete_explanation(session, one.id, tenant)

    @rule(tenant=TENANTS, data=st.data())
    def delete_dataset(self, tenant: str, data: st.DataObject) -> None:
        if not self.datasets[tenant]:
            return
        id_ = data.draw(st.sampled_from(sorted(self.datasets[tenant])))
        users = [one for one in self.explanations[tenant].values() if one.dataset == id_]
        may_go = all(one.ended and one.id not in self.held[tenant] for one in users)
        if may_go:
            with self.database.transaction() as session:
                datasets.delete(session, id_, tenant)
            del self.datasets[tenant][id_]
            return
        with pytest.raises(Conflict), self.database.transaction() as session:
            datasets.delete(session, id_, tenant)

    @rule(tenant=TENANTS, data=st.data())
    def hold_or_end_hold(self, tenant: str, data: st.DataObject) -> None:
        if not self.explanations[tenant]:
            return
        id_ = data.draw(st.sampled_from(sorted(self.explanations[tenant])))
        with self.database.transaction() as session:
            if id_ in self.held[tenant]:
                holds.remove(session, Held.EXPLANATION, id_, tenant=tenant)
                self.held[tenant].remove(id_)
            elif self.explanations[tenant][id_].dataset in self.datasets[tenant]:
                held = Held.EXPLANATION
                holds.put(session, held, id_, "audit", tenant=tenant, key_id=None)
                self.held[tenant].add(id_)

    @rule()
    def let_expire(self) -> None:
        with self.database.reading() as session:
            later = read_clock(session) + 2 * DAY
        expiry.delete_expired(self.database, Retention(explanations=1), at=later)
        for tenant, found in self.explanations.items():
            for id_ in [id_ for id_, one in found.items() if one.ended]:
                if id_ not in self.held[tenant]:
                    del found[id_]

    @rule()
    def purge(self) -> None:
        report = purges.purge(self.database, self.artifacts)
        pending = {digest_of(content) for _, content in self.stored}
        for resource in report.resources:
            assert set(resource.left) <= pending
        needed = self._needed()
        for tenant in ("default", "other"):
            waiting = {content for owner, content in self.stored if owner == tenant}
            files = {one.digest for one in self.artifacts.listed() if one.tenant == tenant}
            expected = {digest_of(content) for content in needed[tenant]}
            assert expected <= files
            interrupted = {digest_of(content) for content in (b"1", b"22", b"333")}
            # Only uploads that never had a row may remain; they are deleted after a day.
            assert files - expected <= interrupted | {digest_of(content) for content in waiting}

    @rule()
    def clean_up_after_a_day(self) -> None:
        """All files without a row are gone, also those of uploads that are still under way."""
        unused_artifacts.compare_with_rows(self.database)
        unused_artifacts.release_unknown(self.database, self.artifacts, min_age_seconds=-1)
        purges.purge(self.database, self.artifacts)
        needed = self._needed()
        files = {(one.tenant, one.digest) for one in self.artifacts.listed()}
        assert files == {(t, digest_of(content)) for t, all_ in needed.items() for content in all_}
        for tenant, contents in needed.items():
            with self.database.reading() as session:
                used = quotas.usage_of(session, tenant).stored_bytes
            assert used == sum(map(len, contents))

    @invariant()
    def every_needed_file_is_there(self) -> None:
        if not hasattr(self, "database"):
            return
        for tenant, contents in self._needed().items():
            for content in contents:
                assert self.artifacts.of(tenant).get(digest_of(content)) == content

    def _needed(self) -> dict[str, set[bytes]]:
        return {
            tenant: {
                b"weights",
                *self.datasets[tenant].values(),
                *(part for one in self.explanations[tenant].values() for part in one.contents),
            }
            for tenant in ("default", "other")
        }


TestDataLife = DataLife.TestCase
TestDataLife.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)
