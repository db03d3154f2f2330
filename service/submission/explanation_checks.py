"""Checks a posted explanation and turns it into what the job is asked; writes no rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from d4explain.contracts.requests import ClassRequest, CounterfactualRequest, DenoiserConfig
from service.graph_io.features import check_one_hot_groups
from service.http.bodies import PostedBody
from service.http.faults import reject
from service.http.idempotency import Created, Submission, find_created
from service.http.json_bodies import parse_model
from service.schemas import ClassIn, CounterfactualIn, ExplanationIn
from service.submission.cost_estimates import Estimate, estimate
from service.submission.explanation_requests import class_request, counterfactual_request
from service.submission.resource_ids import checked_id, find_gnn_and_dataset, report_at
from service.submission.training_costs import check_training
from store.artifacts.files import digest_of
from store.catalogue import denoisers, gnns
from store.catalogue.explanations import ExplanationKind
from store.database.tables import Dataset, Gnn
from store.settings import Settings
from store.store import Store

FindPair = Callable[[str, str], tuple[Gnn, Dataset]]


@dataclass(frozen=True)
class PostedExplanation:
    """A request body as it arrived."""

    body: PostedBody
    submission: Submission


@dataclass(frozen=True)
class CheckedExplanation:
    """A valid request; its job's input is stored as an artifact."""

    submission: Submission
    kind: ExplanationKind
    gnn: Gnn  # as read during the check
    dataset: Dataset
    config: DenoiserConfig
    request_digest: str
    seed: int

    @property
    def denoiser_key(self) -> tuple[str, ...]:
        """Equal for requests that share a denoiser."""
        return (self.gnn.id, self.dataset.id, self.kind, self.config.model_dump_json())


CheckResult = CheckedExplanation | Created  # `Created` if an earlier request had the same key


def check(store: Store, posted: PostedExplanation) -> CheckResult:
    """Checks one request; raises what is wrong with it."""
    (result,) = check_all(store, [posted])
    if isinstance(result, Exception):
        raise result
    return result


def check_all(store: Store, batch: Sequence[PostedExplanation]) -> list[CheckResult | Exception]:
    """Checks requests in one database session; an error belongs to one request."""
    results: list[CheckResult | Exception] = []
    inputs: list[bytes] = []
    with store.database.reading() as session:
        pairs: dict[tuple[str, str], tuple[Gnn, Dataset]] = {}

        def find_pair(gnn: str, dataset: str) -> tuple[Gnn, Dataset]:
            if (gnn, dataset) not in pairs:
                pairs[gnn, dataset] = find_gnn_and_dataset(session, gnn, dataset)
            return pairs[gnn, dataset]

        for posted in batch:
            try:
                created = find_created(session, posted.submission, lock=False)
                if created is not None:
                    results.append(created)
                    continue
                checked, job_input = _check(store, session, posted, find_pair)
            except SQLAlchemyError:  # the session may be unusable for the rest of the batch
                raise
            except Exception as error:
                results.append(error)
            else:
                results.append(checked)
                inputs.append(job_input)
    store.artifacts.put_all(inputs)
    return results


def _check(
    store: Store, session: Session, posted: PostedExplanation, find_pair: FindPair
) -> tuple[CheckedExplanation, bytes]:
    store.require_room()
    asked = parse_model(posted.body.read(), ExplanationIn).root
    gnn, dataset = find_pair(asked.gnn, asked.dataset)
    config = _affordable_config(session, asked, gnn, dataset, store.settings)
    check_one_hot_groups(store, gnn, dataset)
    job_input = _job_request(asked, gnn, dataset, store.settings).model_dump_json().encode()
    checked = CheckedExplanation(
        submission=posted.submission,
        kind=asked.kind,
        gnn=gnn,
        dataset=dataset,
        config=config,
        request_digest=digest_of(job_input),
        seed=asked.seed,
    )
    return checked, job_input


def estimate_cost(store: Store, body: PostedBody) -> Estimate:
    """Checks a request as usual and estimates its cost; writes nothing."""
    asked = parse_model(body.read(), ExplanationIn).root
    with store.database.reading() as session:
        gnn, dataset = find_gnn_and_dataset(session, asked.gnn, asked.dataset)
        config = _affordable_config(session, asked, gnn, dataset, store.settings)
        identity = denoisers.key(gnn.sha256, dataset.sha256, asked.kind, config)
        trains = not denoisers.is_ready(session, identity)
    check_one_hot_groups(store, gnn, dataset)
    request = _job_request(asked, gnn, dataset, store.settings)
    if not isinstance(request, CounterfactualRequest):
        reject("dry_run", "is for requests of the kind 'counterfactual'", "query")
    return estimate(request, dataset, store.settings, trains=trains)


def _job_request(
    asked: CounterfactualIn | ClassIn, gnn: Gnn, dataset: Dataset, settings: Settings
) -> CounterfactualRequest | ClassRequest:
    if isinstance(asked, CounterfactualIn):
        return counterfactual_request(asked, gnn, settings, dataset)
    limit = settings.exact_nodes
    if dataset.max_nodes > limit and not gnns.classifies_nodes(gnn):
        reject(
            "/dataset",
            f"the largest graph of {dataset.id} has {dataset.max_nodes:,} nodes; class "
            f"explanations accept datasets whose graphs have at most {limit:,}",
        )
    return class_request(asked, gnn)


def _affordable_config(
    session: Session,
    asked: CounterfactualIn | ClassIn,
    gnn: Gnn,
    dataset: Dataset,
    settings: Settings,
) -> DenoiserConfig:
    """The denoiser's config; rejects a denoiser that would take too long to train."""
    config = _denoiser_config(session, asked, gnn, dataset)
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


def _denoiser_config(
    session: Session, asked: CounterfactualIn | ClassIn, gnn: Gnn, dataset: Dataset
) -> DenoiserConfig:
    """The posted config, or that of the denoiser with the posted id, which must fit."""
    if not isinstance(asked.denoiser, str):
        return asked.denoiser or DenoiserConfig()
    with report_at("/denoiser"):
        denoiser = denoisers.get(session, checked_id("denoiser", asked.denoiser))
    if denoiser.objective != asked.kind:
        reject(
            "/denoiser",
            f"{denoiser.id} was trained for the objective {denoiser.objective}; "
            f"a {asked.kind} explanation needs {asked.kind}",
        )
    config = DenoiserConfig.model_validate(denoiser.config)
    if denoisers.key(gnn.sha256, dataset.sha256, asked.kind, config) != denoiser.key:
        reject(
            "/denoiser",
            f"{denoiser.id} was trained for {denoiser.gnn_id} and {denoiser.dataset_id}, "
            f"not for {gnn.id} and {dataset.id}",
        )
    return config
