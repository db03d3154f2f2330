"""Explanations that are asked for: checked one by one, written in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from d4explain.contracts.requests import ClassRequest, CounterfactualRequest, DenoiserConfig
from service.graph_io.features import check_groups
from service.http.bodies import PostedBody
from service.http.faults import refuse
from service.http.idempotency import Created, Submission, find_made, remember_made
from service.http.json_bodies import parse_model
from service.resources import ExplanationResource, new_explanation
from service.schemas import ClassIn, CounterfactualIn, ExplanationIn
from service.submission.cost_estimates import Estimate, estimate
from service.submission.explanation_requests import class_request, counterfactual_request
from service.submission.resource_ids import checked_id, named_by, usable
from service.submission.training_costs import check_training
from store.artifacts.files import digest_of
from store.catalogue import denoisers, explanations, gnns
from store.catalogue.explanations import ExplanationKind, NewExplanation
from store.database.identifiers import new_id
from store.database.sessions import OUTAGES
from store.database.tables import Denoiser, Explanation, Gnn, Job, ReferenceSet
from store.errors import NotFound
from store.group_commit import GroupCommit
from store.jobs import Announcement
from store.settings import Settings
from store.store import Store

Usable = Callable[[str, str], tuple[Gnn, ReferenceSet]]  # by the names that a body gives them


@dataclass(frozen=True)
class Question:
    """A body as it was posted."""

    body: PostedBody
    submission: Submission


@dataclass(frozen=True)
class Checked:
    """A question that can be answered; what its job is asked is kept as an artifact."""

    submission: Submission
    kind: ExplanationKind
    gnn: Gnn  # as they were when they were read
    dataset: ReferenceSet
    config: DenoiserConfig
    request: bytes
    request_digest: str
    seed: int

    @property
    def denoiser(self) -> tuple[str, ...]:
        """Equal for questions that the same denoiser serves."""
        return (self.gnn.id, self.dataset.id, self.kind, self.config.model_dump_json())


@dataclass(frozen=True)
class Committed:
    """The explanation that a question stands for."""

    made: Created
    new: ExplanationResource | None  # None: it was there before, and may have changed since
    queued: tuple[Announcement, ...] = ()  # its job; none if that waits, or was there before


Asked = Question | Checked | Committed  # as far as it is known already
Outcome = Committed | Exception


class Submissions:
    """Takes questions from any number of requests; those that come together commit together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._group: GroupCommit[Asked, Outcome] = GroupCommit(
            partial(write_all, store), "submissions", shared=OUTAGES
        )

    async def ask(self, asked: Asked) -> Committed:
        """The explanation, committed; raises what is wrong with the question."""
        outcome = await asyncio.wrap_future(self._group.submit(asked))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        self._group.close()


def write_all(store: Store, several: Sequence[Asked]) -> list[Outcome]:
    """Checks each question by itself and writes those that pass; one of them cannot be half."""
    found = _checked_all(store, several)
    written = iter(_written_all(store, [one for one in found if isinstance(one, Checked)]))
    return [next(written) if isinstance(one, Checked) else one for one in found]


def check(store: Store, question: Question) -> Checked | Committed:
    """One question by itself, for bodies that take long to read."""
    (found,) = _checked_all(store, [question])
    if isinstance(found, Exception):
        raise found
    return found


def _checked_all(store: Store, several: Sequence[Asked]) -> list[Checked | Outcome]:
    checked: list[Checked | Outcome] = []
    with store.database.reading() as session:
        pairs: dict[tuple[str, str], tuple[Gnn, ReferenceSet]] = {}

        def usable_once(gnn: str, dataset: str) -> tuple[Gnn, ReferenceSet]:
            if (gnn, dataset) not in pairs:
                pairs[gnn, dataset] = usable(session, gnn, dataset)
            return pairs[gnn, dataset]

        for asked in several:
            if not isinstance(asked, Question):
                checked.append(asked)
                continue
            try:
                checked.append(_checked(store, session, asked, usable_once))
            except SQLAlchemyError:  # the session may be of no use to the others
                raise
            except Exception as error:  # the one who asked is told, and nobody else
                checked.append(error)
    # Those of the others have been put by whoever checked them.
    store.artifacts.put_all(
        [
            one.request
            for asked, one in zip(several, checked, strict=True)
            if isinstance(one, Checked) and one is not asked
        ]
    )
    return checked


def _checked(
    store: Store, session: Session, question: Question, usable: Usable
) -> Checked | Committed:
    # First, so that a repetition costs nothing.
    made = find_made(session, question.submission, lock=False)
    if made is not None:
        return Committed(made, None)
    store.require_room()
    asked = parse_model(question.body.read(), ExplanationIn).root
    gnn, dataset = usable(asked.gnn, asked.dataset)
    config = _denoiser_config(session, asked, gnn, dataset, store.settings)
    check_groups(store, gnn, dataset)
    request = _request(asked, gnn, dataset, store.settings).model_dump_json().encode()
    return Checked(
        submission=question.submission,
        kind=asked.kind,
        gnn=gnn,
        dataset=dataset,
        config=config,
        request=request,
        request_digest=digest_of(request),
        seed=asked.seed,
    )


def estimate_cost(store: Store, body: PostedBody) -> Estimate:
    """What a question would take; it is checked as any other, and nothing is written."""
    asked = parse_model(body.read(), ExplanationIn).root
    with store.database.reading() as session:
        gnn, dataset = usable(session, asked.gnn, asked.dataset)
        config = _denoiser_config(session, asked, gnn, dataset, store.settings)
        identity = denoisers.key(gnn.sha256, dataset.sha256, asked.kind, config)
        trains = not denoisers.is_ready(session, identity)
    check_groups(store, gnn, dataset)
    request = _request(asked, gnn, dataset, store.settings)
    if not isinstance(request, CounterfactualRequest):
        refuse("dry_run", "is for questions of the kind 'counterfactual'", "query")
    return estimate(request, dataset, store.settings, trains=trains)


def _request(
    asked: CounterfactualIn | ClassIn, gnn: Gnn, dataset: ReferenceSet, settings: Settings
) -> CounterfactualRequest | ClassRequest:
    if isinstance(asked, CounterfactualIn):
        return counterfactual_request(asked, gnn, settings, dataset)
    most = settings.exact_nodes
    if dataset.max_nodes > most and not gnns.classifies_nodes(gnn):
        refuse(
            "/dataset",
            f"the largest graph of {dataset.id} has {dataset.max_nodes:,} nodes; classes are "
            f"explained by reference sets whose graphs have at most {most:,}",
        )
    return class_request(asked, gnn)


def _written_all(store: Store, several: Sequence[Checked]) -> list[Committed]:
    """In one transaction; if anything is wrong with one of them, none is written.

    What is returned is made before the commit: an error after it would have all written again.
    Locks are taken in the order of keys, then of denoisers, so that processes that write at the
    same time do not wait for each other in a circle.
    """
    if not several:
        return []
    made: dict[int, Created] = {}
    with store.database.transaction() as session:
        for place in sorted(range(len(several)), key=lambda at: several[at].submission.key or ""):
            made[place] = _made_once(session, several[place].submission)
        fresh = [place for place in range(len(several)) if not made[place].replayed]
        names = {place: several[place].denoiser for place in fresh}
        examples = {names[place]: several[place] for place in fresh}
        served = {name: _served(session, examples[name]) for name in sorted(examples)}
        rows = explanations.create_all(
            session,
            [
                NewExplanation(
                    id=made[place].id,
                    kind=several[place].kind,
                    gnn=several[place].gnn,
                    dataset=several[place].dataset,
                    denoiser=denoiser,
                    train_job=training,
                    request_digest=several[place].request_digest,
                    seed=several[place].seed,
                )
                for place in fresh
                for denoiser, training in [served[names[place]]]
            ],
        )
        written = {
            place: _as_written(made[place], *row) for place, row in zip(fresh, rows, strict=True)
        }
        return [written.get(place, Committed(made[place], None)) for place in range(len(several))]


def _as_written(made: Created, explanation: Explanation, job: Job) -> Committed:
    resource = new_explanation(explanation, job)
    return Committed(made, resource, () if job.waiting_for else (Announcement.of(job),))


def _served(session: Session, asked: Checked) -> tuple[Denoiser, Job | None]:
    """The denoiser and its training, if that is to be waited for; both sets were not deleted."""
    try:
        return denoisers.get_or_create(
            session,
            gnn=asked.gnn,
            dataset=asked.dataset,
            objective=asked.kind,
            config=asked.config,
        )
    except NotFound as error:
        with named_by(f"/{error.kind}"):
            raise


def _made_once(session: Session, submission: Submission) -> Created:
    """What the submission made before, or a new id that is from now on its own."""
    before = find_made(session, submission)
    if before is not None:
        return before
    made = Created(new_id("exp"), replayed=False)
    remember_made(session, submission, made)
    return made


def _denoiser_config(
    session: Session,
    asked: CounterfactualIn | ClassIn,
    gnn: Gnn,
    dataset: ReferenceSet,
    settings: Settings,
) -> DenoiserConfig:
    """As `_asked_config`; refused if training such a denoiser would take too long."""
    config = _asked_config(session, asked, gnn, dataset)
    check_training(
        session,
        "/denoiser",
        gnn=gnn,
        dataset=dataset,
        objective=asked.kind,
        config=config,
        settings=settings,
    )
    return config


def _asked_config(
    session: Session, asked: CounterfactualIn | ClassIn, gnn: Gnn, dataset: ReferenceSet
) -> DenoiserConfig:
    """How the denoiser is, or was, trained; one named by its id has to be of this very kind."""
    if not isinstance(asked.denoiser, str):
        return asked.denoiser or DenoiserConfig()
    with named_by("/denoiser"):
        denoiser = denoisers.get(session, checked_id("denoiser", asked.denoiser))
    if denoiser.objective != asked.kind:
        refuse(
            "/denoiser",
            f"{denoiser.id} was trained for the objective {denoiser.objective}; "
            f"a {asked.kind} explanation needs {asked.kind}",
        )
    config = DenoiserConfig.model_validate(denoiser.config)
    if denoisers.key(gnn.sha256, dataset.sha256, asked.kind, config) != denoiser.key:
        refuse(
            "/denoiser",
            f"{denoiser.id} was trained for {denoiser.gnn_id} and {denoiser.dataset_id}, "
            f"not for {gnn.id} and {dataset.id}",
        )
    return config
