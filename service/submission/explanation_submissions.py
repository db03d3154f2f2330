"""Accepts explanations: one thread checks them, another commits those that arrive together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.orm import Session

from service.http.idempotency import Created, Submission, find_created, remember_created
from service.resource_builders import new_explanation
from service.resources import ExplanationResource
from service.submission.explanation_checks import (
    CheckedExplanation,
    CheckResult,
    PostedExplanation,
    check_all,
)
from service.submission.resource_ids import report_at
from service.submission.training_costs import training_seconds, witness_seconds
from store.catalogue import denoisers, explanations, witness_sets
from store.catalogue.data_life.input_locks import lock_inputs
from store.catalogue.explanations import NewExplanation
from store.database import audit_entries, quotas
from store.database.identifiers import new_id
from store.database.origins import coming_from
from store.database.sessions import OUTAGES
from store.database.tables import Denoiser, Explanation, Job, WitnessSet
from store.errors import NotFound
from store.group_commit import GroupCommit
from store.jobs import Announcement, TrainingQueue
from store.store import Store
from store.webhooks import endpoints


@dataclass(frozen=True)
class Committed:
    """The explanation that this request or an earlier one with the same key created."""

    created: Created
    resource: ExplanationResource | None  # None if created earlier: it may have changed since
    queued: tuple[Announcement, ...] = ()  # its job; empty if the job waits or existed before


class Submissions:
    """Checks and commits the requests of all clients, each step in batches."""

    def __init__(self, store: Store) -> None:
        self._checks: GroupCommit[PostedExplanation, CheckResult | Exception] = GroupCommit(
            partial(check_all, store), "explanation-checks", shared=OUTAGES
        )
        self._commits: GroupCommit[CheckedExplanation, Committed] = GroupCommit(
            partial(commit_all, store), "explanation-commits", shared=OUTAGES
        )

    async def check(self, posted: PostedExplanation) -> CheckResult:
        """Checks a small body in the reader thread; raises what is wrong with it."""
        result = await asyncio.wrap_future(self._checks.submit(posted))
        if isinstance(result, Exception):
            raise result
        return result

    async def commit(self, checked: CheckResult) -> Committed:
        if isinstance(checked, Created):
            return Committed(checked, None)
        return await asyncio.wrap_future(self._commits.submit(checked))

    def close(self) -> None:
        self._checks.close()
        self._commits.close()


def commit_all(store: Store, batch: Sequence[CheckedExplanation]) -> list[Committed]:
    """Writes all in one transaction, or none if one of them fails.

    It builds the results before the commit, because after an error the caller writes all of them
    again. It takes locks by idempotency key, then by denoiser, then by witness set, so that
    processes cannot deadlock.
    """
    created: dict[int, Created] = {}
    with store.database.transaction() as session:
        for index in sorted(range(len(batch)), key=lambda at: batch[at].submission.lock_key):
            created[index] = _create_once(session, batch[index].submission)
        new = [index for index in range(len(batch)) if not created[index].replayed]
        for index in new:
            quotas.enforce(session, batch[index].submission.tenant)
        keys = {index: batch[index].denoiser_key for index in new}
        representatives = {keys[index]: batch[index] for index in new}
        trained = {
            key: _get_denoiser(session, representatives[key]) for key in sorted(representatives)
        }
        judged = {key: batch[index] for index in new if (key := batch[index].witness_key)}
        witnesses = {key: _get_witnesses(session, judged[key]) for key in sorted(judged)}
        rows = explanations.create_all(
            session,
            [
                NewExplanation(
                    id=created[index].id,
                    kind=batch[index].kind,
                    gnn=batch[index].gnn,
                    dataset=batch[index].dataset,
                    denoiser=denoiser,
                    train_job=train_job,
                    witness_set=witness_set,
                    witness_job=witness_job,
                    request_digest=batch[index].request_digest,
                    provisional=batch[index].provisional,
                    estimated_seconds=batch[index].estimated_seconds,
                    seed=batch[index].seed,
                    origin=batch[index].submission.origin,
                    metadata=batch[index].metadata,
                )
                for index in new
                for denoiser, train_job in [trained[keys[index]]]
                for witness_set, witness_job in [
                    witnesses.get(batch[index].witness_key or (), (None, None))
                ]
            ],
        )
        posted = [batch[index].webhook for index in new]
        endpoints.add_all(
            session,
            [
                (webhook, job)
                for webhook, (_, job) in zip(posted, rows, strict=True)
                if webhook is not None
            ],
        )
        queue = _training_queue(session, [job for _, job in rows])
        committed = {
            index: _committed(created[index], *row, queue)
            for index, row in zip(new, rows, strict=True)
        }
        return [
            committed.get(index, Committed(created[index], None)) for index in range(len(batch))
        ]


def _training_queue(session: Session, new: Sequence[Job]) -> TrainingQueue:
    """Read only if a job waits for a training: most submissions need no query."""
    waits = any(job.is_blocked for job in new)
    return TrainingQueue.read(session) if waits else TrainingQueue()


def _committed(
    created: Created, explanation: Explanation, job: Job, queue: TrainingQueue
) -> Committed:
    resource = new_explanation(explanation, job, queue)
    # Nothing is named if the job waits: the dispatcher looks for its trainings and the
    # provisional job.
    return Committed(created, resource, () if job.is_blocked else (Announcement.of(job),))


def _get_denoiser(
    session: Session, checked: CheckedExplanation
) -> tuple[Denoiser | None, Job | None]:
    """The denoiser, if the explainer needs one, and its training job if that has to run first."""
    with _report_deleted_inputs(), coming_from(checked.submission.origin):
        if checked.config is None:
            lock_inputs(session, checked.gnn, checked.dataset)
            return None, None
        return denoisers.get_or_create(
            session,
            gnn=checked.gnn,
            dataset=checked.dataset,
            objective=checked.kind,
            config=checked.config,
            estimated_seconds=training_seconds(checked.kind, checked.config, checked.dataset),
        )


def _get_witnesses(
    session: Session, checked: CheckedExplanation
) -> tuple[WitnessSet | None, Job | None]:
    """The witness set and its training job if that has to run first."""
    with _report_deleted_inputs(), coming_from(checked.submission.origin):
        return witness_sets.get_or_create(
            session,
            gnn=checked.gnn,
            dataset=checked.dataset,
            estimated_seconds=witness_seconds(checked.gnn, checked.dataset),
        )


@contextmanager
def _report_deleted_inputs() -> Iterator[None]:
    """Reports a GNN or dataset that was deleted since the check."""
    try:
        yield
    except NotFound as error:
        with report_at(f"/{error.kind}"):
            raise


def _create_once(session: Session, submission: Submission) -> Created:
    """The resource that the same key created before, or a new id stored under the key."""
    before = find_created(session, submission)
    if before is not None:
        return before
    created = Created(new_id("exp"), replayed=False)
    remember_created(session, submission, created)
    audit_entries.note(session, submission.action, created.id)
    return created
