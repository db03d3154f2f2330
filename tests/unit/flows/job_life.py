"""A Hypothesis state machine: tenants, a worker and purges against the API, compared with a model.

`test_job_life` runs it.
"""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from sqlalchemy import update

from d4explain.contracts.job_states import JobState
from d4explain.contracts.scopes import KeyState, Scope
from store import jobs
from store.access import api_keys
from store.artifacts.files import digest_of
from store.database.sessions import now
from store.database.tables import ApiKey, Job
from store.errors import LeaseLost
from store.jobs import Claim
from store.retention import purges
from tests.conftest import Deployment

TENANTS = ("first", "second")
TEAMS = (None, "risk", "fraud")
MAX_ATTEMPTS = 3  # the default of a deployment


def metadata_of(team: str | None) -> dict[str, str]:
    return {} if team is None else {"team": team}


@dataclass
class ModelJob:
    tenant: str
    gnn: str
    state: JobState = JobState.QUEUED
    attempts: int = 0
    has_started: bool = False
    cancel_requested: bool = False
    retried: bool = False
    team: str | None = None  # its metadata
    repeats: str | None = None  # the job that it retries


@dataclass
class Tenant:
    name: str
    key: str
    gnns: set[str] = field(default_factory=set)


class JobLife(RuleBasedStateMachine):
    """Everything that users and workers can do with prediction jobs, in any order."""

    api: Deployment  # shared by all runs; each run has tenants of its own
    job_ids = Bundle("job_ids")
    claims = Bundle("claims")
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, ModelJob] = {}
        self.by_key: dict[tuple[str, str], str] = {}  # tenant and Idempotency-Key
        self.teams: dict[str, str | None] = {}  # what was sent for a job, also for deleted ones
        self.tenants = {name: self._tenant(name) for name in TENANTS}

    def _tenant(self, name: str) -> Tenant:
        own = f"{name}-{next(self.numbers)}-{secrets.token_hex(3)}"
        with self.api.store.database.transaction() as session:
            key = api_keys.create(session, tenant=own, name="run", scopes=list(Scope)).text
        return Tenant(own, key, {self._gnn(own) for _ in range(2)})

    def _gnn(self, tenant: str) -> str:
        """All GNNs of a tenant have the same weights, so they share a file."""
        return Deployment(self.api.store, self.api.client, tenant).gnn()

    def _send(self, tenant: str, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tenants[tenant].key}", "Prefer": "wait=0"}
        headers |= options.pop("headers", {})
        answer = self.api.client.request(method, path, headers=headers, **options)
        assert answer.status_code < 500, answer.text
        return answer

    # What users do.

    @rule(
        target=job_ids,
        tenant=st.sampled_from(TENANTS),
        of=st.sampled_from(TENANTS),
        key=st.sampled_from(["", "a", "b"]),
        position=st.integers(0, 1),
        team=st.sampled_from(TEAMS),
    )
    def predict(self, tenant: str, of: str, key: str, position: int, team: str | None) -> str:
        """With a GNN of `of`, which only its own tenant sees."""
        gnns = sorted(self.tenants[of].gnns)
        gnn = gnns[position] if position < len(gnns) else "gnn_01m7r4xdp18fvewk6d29"
        key = key and f"{key}-{gnn}"
        answer = self._send(
            tenant,
            "POST",
            f"/v1/gnns/{gnn}/predictions",
            json={"graph": self.api.graph(), "metadata": metadata_of(team)},
            headers={"Idempotency-Key": key} if key else {},
        )
        known = self.by_key.get((tenant, key)) if key else None
        if known is not None and self.teams[known] != team:
            assert answer.status_code == 422, answer.text
            return known
        if known is not None and known not in self.jobs:  # deleted since
            assert answer.status_code == 404, answer.text
            return known
        if known is not None:
            assert answer.is_success, answer.text
            assert answer.json()["job"]["id"] == known
            return known
        if gnn not in self.tenants[tenant].gnns:
            assert answer.status_code == 404, answer.text
            return "job_01m7r4xdp18fvewk6d29"
        assert answer.status_code == 202, answer.text
        job = str(answer.json()["job"]["id"])
        assert job not in self.jobs
        self.jobs[job] = ModelJob(tenant, gnn, team=team)
        self.teams[job] = team
        if key:
            self.by_key[tenant, key] = job
        return job

    @rule(tenant=st.sampled_from(TENANTS), job=job_ids)
    def cancel(self, tenant: str, job: str) -> None:
        answer = self._send(tenant, "POST", f"/v1/jobs/{job}/cancel")
        known = self._visible(tenant, job)
        if known is None:
            assert answer.status_code == 404
        elif known.state.is_terminal:
            assert answer.status_code == 409
        elif known.state is JobState.RUNNING:
            assert answer.status_code == 202
            known.cancel_requested = True
        else:
            assert answer.status_code == 200
            known.state, known.cancel_requested = JobState.CANCELED, True

    @rule(target=job_ids, tenant=st.sampled_from(TENANTS), job=job_ids)
    def retry(self, tenant: str, job: str) -> str:
        answer = self._send(tenant, "POST", f"/v1/jobs/{job}/retry")
        known = self._visible(tenant, job)
        if known is None:
            assert answer.status_code == 404
            return job
        if not known.state.is_terminal or known.state is JobState.SUCCEEDED or known.retried:
            assert answer.status_code == 409, answer.text
            return job
        if known.gnn not in self.tenants[tenant].gnns:
            assert answer.status_code in {404, 409}, answer.text
            return job
        assert answer.status_code == 202, answer.text
        known.retried = True
        again = str(answer.json()["id"])
        self.jobs[again] = ModelJob(tenant, known.gnn, team=known.team, repeats=job)
        return again

    @rule(tenant=st.sampled_from(TENANTS), job=job_ids)
    def delete_job(self, tenant: str, job: str) -> None:
        answer = self._send(tenant, "DELETE", f"/v1/jobs/{job}")
        known = self._visible(tenant, job)
        if known is None:
            assert answer.status_code == 404, answer.text
        elif not known.state.is_terminal:
            assert answer.status_code == 409, answer.text
        else:
            assert answer.status_code == 204, answer.text
            del self.jobs[job]
            if known.repeats in self.jobs:  # which may be retried again
                self.jobs[known.repeats].retried = False

    @rule(
        tenant=st.sampled_from(TENANTS), of=st.sampled_from(TENANTS), position=st.integers(0, 1),
        team=st.sampled_from(TEAMS),
    )  # fmt: skip
    def note_on_gnn(self, tenant: str, of: str, position: int, team: str | None) -> None:
        """Metadata of a GNN, which is found by it and not by other values."""
        gnns = sorted(self.tenants[of].gnns)
        if position >= len(gnns):
            return
        gnn = gnns[position]
        answer = self._send(tenant, "PATCH", f"/v1/gnns/{gnn}", json={"metadata": {"team": team}})
        if tenant != of:
            assert answer.status_code == 404, answer.text
            return
        assert answer.json()["metadata"] == metadata_of(team)
        for other in TEAMS[1:]:
            found = self._send(of, "GET", f"/v1/gnns?metadata.team={other}").json()["items"]
            assert (gnn in {item["id"] for item in found}) == (other == team)

    @rule(tenant=st.sampled_from(TENANTS), of=st.sampled_from(TENANTS), position=st.integers(0, 1))
    def delete_gnn(self, tenant: str, of: str, position: int) -> None:
        gnns = sorted(self.tenants[of].gnns)
        if position >= len(gnns):
            return
        gnn = gnns[position]
        answer = self._send(tenant, "DELETE", f"/v1/gnns/{gnn}")
        if tenant != of:
            assert answer.status_code == 404, answer.text
        elif any(job.gnn == gnn and not job.state.is_terminal for job in self.jobs.values()):
            assert answer.status_code == 409, answer.text
        else:
            assert answer.status_code == 204, answer.text
            self.tenants[of].gnns.remove(gnn)
            for job in self.jobs.values():  # its jobs stay as records, without their metadata
                if job.gnn == gnn:
                    job.team = None

    @rule(tenant=st.sampled_from(TENANTS))
    def register_again(self, tenant: str) -> None:
        """The weights may have been deleted before, or may be about to."""
        owner = self.tenants[tenant]
        if len(owner.gnns) < 2:
            owner.gnns.add(self._gnn(owner.name))

    @rule(tenant=st.sampled_from(TENANTS))
    def replace_key(self, tenant: str) -> None:
        """The old key is revoked; a process may still know it for two seconds, so ask the store."""
        owner = self.tenants[tenant]
        with self.api.store.database.transaction() as session:
            old = api_keys.authenticate(session, owner.key)
            assert old is not None
            new = api_keys.rotate(session, old.id, owner.name, overlap_seconds=60)
            api_keys.revoke(session, old.id, owner.name)
            assert api_keys.authenticate(session, owner.key) is None
        owner.key = new.text

    @rule(tenant=st.sampled_from(TENANTS))
    def expire_key(self, tenant: str) -> None:
        """The time of a key passes: it opens nothing, is listed as expired and not rotated."""
        owner = self.tenants[tenant]
        with self.api.store.database.transaction() as session:
            old = api_keys.authenticate(session, owner.key)
            assert old is not None
            new = api_keys.create(session, tenant=owner.name, name="run", scopes=list(Scope))
            session.execute(update(ApiKey).where(ApiKey.id == old.id).values(expires_at=now() - 1))
        with self.api.store.database.transaction() as session:
            assert api_keys.authenticate(session, owner.key) is None
        owner.key = new.text
        shown = self._send(tenant, "GET", f"/v1/keys/{old.id}").json()
        assert shown["state"] == "expired"
        rotated = self._send(tenant, "POST", f"/v1/keys/{old.id}/rotate", json={})
        assert rotated.status_code == 409, rotated.text
        keys = {state: self._keys(tenant, f"&state={state}") for state in KeyState}
        assert {id_: state for state, ids in keys.items() for id_ in ids} == self._keys(tenant)

    # What workers and time do.

    @rule(target=claims, job=job_ids)
    def claim(self, job: str) -> Claim | None:
        with self.api.store.database.transaction() as session:
            claim = jobs.claim(session, job, "worker", 60)
        known = self.jobs.get(job)
        may_run = known is not None and known.state is JobState.QUEUED
        assert (claim is not None) == may_run
        if known is not None and claim is not None:
            known.state, known.attempts = JobState.RUNNING, known.attempts + 1
            known.has_started = True
            assert claim.request_digest is not None
            artifacts = self.api.store.artifacts.of(claim.tenant)
            assert artifacts.get(claim.request_digest)
        return claim

    @rule(claim=consumes(claims), ending=st.sampled_from(["succeed", "fail", "break", "release"]))
    def end(self, claim: Claim | None, ending: str) -> None:
        """A worker ends its attempt, which may have lost its lease since."""
        if claim is None:
            return
        known = self.jobs.get(claim.job_id)
        if known is None:  # canceled and deleted since
            return
        try:
            with self.api.store.database.transaction() as session:
                row = jobs.get(session, claim.job_id, tenant=claim.tenant)
                is_held = (row.state, row.attempt) == (JobState.RUNNING, claim.attempt)
                match ending:
                    case "succeed":
                        jobs.succeed(session, claim, {"kind": "predictions"})
                    case "release":
                        jobs.release(session, claim)
                    case _:
                        jobs.fail(session, claim, "test", "failed", retryable=ending == "break")
        except LeaseLost:
            assert not is_held
            return
        assert is_held
        assert known.state is JobState.RUNNING
        if ending == "release":
            known.attempts -= 1
        if ending == "succeed":
            known.state = JobState.SUCCEEDED
        elif known.cancel_requested:
            known.state = JobState.CANCELED
        elif ending == "release" or (ending == "break" and known.attempts < MAX_ATTEMPTS):
            known.state = JobState.QUEUED
        else:
            known.state = JobState.FAILED

    @rule(job=job_ids)
    def lose_worker(self, job: str) -> None:
        """The worker of a running job dies; the reaper finds it after the lease."""
        known = self.jobs.get(job)
        self._let_pass(job, Job.lease_until)
        if known is None or known.state is not JobState.RUNNING:
            return
        if known.cancel_requested:
            known.state = JobState.CANCELED
        else:
            used_up = known.attempts >= MAX_ATTEMPTS
            known.state = JobState.FAILED if used_up else JobState.QUEUED

    @rule(job=job_ids)
    def wait_too_long(self, job: str) -> None:
        """No worker starts a queued job within its queue time."""
        self._let_pass(job, Job.expires_at)
        known = self.jobs.get(job)
        if known is not None and known.state is JobState.QUEUED and not known.has_started:
            known.state = JobState.EXPIRED

    @rule()
    def purge(self) -> None:
        """Deletes the files that no row needs, as the dispatcher does every minute."""
        report = purges.purge(self.api.store.database, self.api.store.artifacts)
        assert report.is_complete, report

    def _keys(self, tenant: str, query: str = "") -> dict[str, str]:
        """The states of the tenant's keys."""
        items = self._send(tenant, "GET", f"/v1/keys?limit=200{query}").json()["items"]
        return {item["id"]: item["state"] for item in items}

    def _let_pass(self, job: str, column: Any) -> None:
        with self.api.store.database.transaction() as session:
            session.execute(
                update(Job)
                .where(Job.id == job, column.is_not(None))
                .values({column: now() - 1})
                .execution_options(synchronize_session=False)
            )
        with self.api.store.database.transaction() as session:
            jobs.reap(session)

    def _visible(self, tenant: str, job: str) -> ModelJob | None:
        known = self.jobs.get(job)
        return known if known is not None and known.tenant == tenant else None

    # What always holds.

    @invariant()
    def the_weights_of_each_gnn_are_there(self) -> None:
        weights = self.api.weights()
        for owner in self.tenants.values():
            if owner.gnns:
                artifacts = self.api.store.artifacts.of(owner.name)
                assert artifacts.get(digest_of(weights)) == weights

    @invariant()
    def each_tenant_lists_its_own_jobs(self) -> None:
        for tenant in TENANTS:
            listed = self._send(tenant, "GET", "/v1/jobs?limit=200&kind=predict").json()["items"]
            shown = {one["id"]: (one["state"], one["attempt"]) for one in listed}
            mine = {id_: job for id_, job in self.jobs.items() if job.tenant == tenant}
            assert shown == {id_: (job.state, job.attempts) for id_, job in mine.items()}
            assert {one["id"] for one in listed if one["cancel_requested"]} == {
                id_ for id_, job in mine.items() if job.cancel_requested
            }
            assert {one["id"]: one["metadata"] for one in listed} == {
                id_: metadata_of(job.team) for id_, job in mine.items()
            }

    @rule(
        tenant=st.sampled_from(TENANTS), team=st.sampled_from(TEAMS[1:]),
        state=st.sampled_from([None, *JobState]),
    )  # fmt: skip
    def filter_jobs(self, tenant: str, team: str, state: JobState | None) -> None:
        """By metadata and state; the other tenant uses the same values."""
        query = f"/v1/jobs?limit=200&kind=predict&metadata.team={team}"
        query += "" if state is None else f"&state={state}"
        found = {item["id"] for item in self._send(tenant, "GET", query).json()["items"]}
        assert found == {
            id_
            for id_, job in self.jobs.items()
            if (job.tenant, job.team) == (tenant, team) and state in (None, job.state)
        }
        past = self._send(tenant, "GET", f"{query}&created_before=2020-01-01").json()["items"]
        assert past == []

    def teardown(self) -> None:
        """Ends what is left: the next run reaps too."""
        ended = {"state": JobState.CANCELED, "lease_until": None}
        left = [id_ for id_, job in self.jobs.items() if not job.state.is_terminal]
        with self.api.store.database.transaction() as session:
            session.execute(
                update(Job)
                .where(Job.id.in_(left))
                .values(ended)
                .execution_options(synchronize_session=False)
            )


def options(runs: int, steps: int) -> settings:
    return settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
