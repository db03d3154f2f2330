"""Checks a posted explanation and converts it to the request of its job; writes no rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from d4explain.contracts.job_states import ExplanationKind
from d4explain.contracts.requests import (
    ClassExplainer,
    ClassRequest,
    CounterfactualRequest,
    DenoiserConfig,
    Explainer,
)
from service.graph_io.features.gnn_features import check_column_rules
from service.http.bodies import PostedBody
from service.http.faults import reject, shown
from service.http.idempotency import Created, Submission, find_created
from service.http.json_bodies import parse_model
from service.schemas import ClassIn, CounterfactualIn, ExplanationIn, GlobalIn
from service.submission.cost_estimates import Estimate, case_estimates, estimate
from service.submission.explainers import needs_denoiser
from service.submission.explanation_requests import class_request, counterfactual_request
from service.submission.global_counterfactuals.checks import global_request
from service.submission.global_counterfactuals.costs import global_estimate
from service.submission.judges import resolved_judges, why_no_witnesses
from service.submission.provisional_answers import allows_provisional
from service.submission.request_webhooks import checked_webhook
from service.submission.resource_ids import checked_id, find_gnn_and_dataset, report_at
from service.submission.training_costs import check_training, training_seconds, witness_seconds
from store.artifacts.files import digest_of
from store.catalogue import denoisers, gnns, trained_networks, witness_sets
from store.database.tables import Dataset, Denoiser, Gnn, WitnessSet
from store.settings import Settings
from store.store import Store
from store.webhooks.endpoints import RequestWebhook

FindPair = Callable[[str, str, str], tuple[Gnn, Dataset]]  # tenant, GNN, dataset


@dataclass(frozen=True)
class PostedExplanation:
    """A request body as it arrived."""

    body: PostedBody
    submission: Submission


@dataclass(frozen=True)
class CheckedExplanation:
    """A valid request; the request of its job is stored as an artifact."""

    submission: Submission
    kind: ExplanationKind
    gnn: Gnn  # as read during the check
    dataset: Dataset
    config: DenoiserConfig | None  # None for an explanation without a denoiser
    has_witnesses: bool
    provisional: bool  # whether it gets a provisional answer if it has to wait
    estimated_seconds: float | None  # without any training; None for a class
    request_digest: str
    seed: int
    webhook: RequestWebhook | None
    metadata: dict[str, Any]

    @property
    def denoiser_key(self) -> tuple[str, ...]:
        """Equal for requests that share a denoiser."""
        config = "" if self.config is None else self.config.model_dump_json()
        return (self.gnn.id, self.dataset.id, self.kind, config)

    @property
    def witness_key(self) -> tuple[str, ...] | None:
        """Equal for requests that share witnesses; None without any."""
        return (self.gnn.id, self.dataset.id) if self.has_witnesses else None


@dataclass(frozen=True)
class DenoiserWish:
    """What a request says about its denoiser."""

    kind: ExplanationKind
    explainer: Explainer | ClassExplainer
    denoiser: str | DenoiserConfig | None


JobRequest = CounterfactualRequest | ClassRequest | GlobalRequest
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
    job_requests: dict[str, list[bytes]] = {}  # by tenant
    with store.database.reading() as session:
        pairs: dict[tuple[str, str, str], tuple[Gnn, Dataset]] = {}

        def find_pair(tenant: str, gnn: str, dataset: str) -> tuple[Gnn, Dataset]:
            asked = (tenant, gnn, dataset)
            if asked not in pairs:
                pairs[asked] = find_gnn_and_dataset(session, gnn, dataset, tenant)
            return pairs[asked]

        for posted in batch:
            try:
                created = find_created(session, posted.submission, lock=False)
                if created is not None:
                    results.append(created)
                    continue
                checked, job_request = _check(store, session, posted, find_pair)
            except SQLAlchemyError:  # the session may be unusable for the rest of the batch
                raise
            except Exception as error:
                results.append(error)
            else:
                results.append(checked)
                job_requests.setdefault(posted.submission.tenant, []).append(job_request)
    for tenant, several in job_requests.items():
        store.artifacts.of(tenant).put_all(several)
    return results


def _check(
    store: Store, session: Session, posted: PostedExplanation, find_pair: FindPair
) -> tuple[CheckedExplanation, bytes]:
    store.require_room()
    body = parse_model(posted.body.read(), ExplanationIn).root
    webhook = checked_webhook(body.webhook, store.settings)
    gnn, dataset = find_pair(posted.submission.tenant, body.gnn, body.dataset)
    config = _config(session, body, gnn, dataset, store.settings)
    check_column_rules(store, gnn, dataset)
    request = _job_request(store, session, body, gnn, dataset)
    job_request = request.model_dump_json().encode()
    checked = CheckedExplanation(
        submission=posted.submission,
        kind=body.kind,
        gnn=gnn,
        dataset=dataset,
        config=config,
        has_witnesses=why_no_witnesses(body, gnn, dataset) is None,
        provisional=allows_provisional(request, gnn, store.settings),
        estimated_seconds=_case_seconds(request, dataset, store.settings),
        request_digest=digest_of(job_request),
        seed=body.seed,
        webhook=webhook,
        metadata=body.metadata,
    )
    return checked, job_request


def estimate_cost(store: Store, tenant: str, posted: PostedBody) -> Estimate:
    """Checks a request as usual and estimates its cost; writes nothing."""
    body = parse_model(posted.read(), ExplanationIn).root
    checked_webhook(body.webhook, store.settings)
    with store.database.reading() as session:
        gnn, dataset = find_gnn_and_dataset(session, body.gnn, body.dataset, tenant)
        config = _config(session, body, gnn, dataset, store.settings)
        denoiser_seconds = witness_time = None
        if config is not None:
            identity = denoisers.key(gnn.sha256, dataset.sha256, body.kind, config)
            whole = training_seconds(body.kind, config, dataset)
            denoiser_seconds = trained_networks.seconds_left(
                session, Denoiser, identity, whole, tenant
            )
        if why_no_witnesses(body, gnn, dataset) is None:
            identity = witness_sets.key(gnn.sha256, dataset.sha256)
            whole = witness_seconds(gnn, dataset)
            witness_time = trained_networks.seconds_left(
                session, WitnessSet, identity, whole, tenant
            )
        request = _job_request(store, session, body, gnn, dataset)
    check_column_rules(store, gnn, dataset)
    if isinstance(request, GlobalRequest):
        return global_estimate(request, dataset)
    if isinstance(request, ClassRequest):
        reject("dry_run", "is for requests of the kinds 'counterfactual' and 'global'", "query")
    return estimate(
        request,
        dataset,
        store.settings,
        denoiser_seconds=denoiser_seconds,
        witness_seconds=witness_time,
        provisional=allows_provisional(request, gnn, store.settings),
    )


def _case_seconds(request: JobRequest, dataset: Dataset, settings: Settings) -> float | None:
    if isinstance(request, GlobalRequest):
        return global_estimate(request, dataset).seconds
    if isinstance(request, ClassRequest):
        return None
    return sum(case.seconds for case in case_estimates(request, dataset, settings))


def _job_request(
    store: Store,
    session: Session,
    body: CounterfactualIn | ClassIn | GlobalIn,
    gnn: Gnn,
    dataset: Dataset,
) -> JobRequest:
    if isinstance(body, CounterfactualIn):
        judges = resolved_judges(session, body, gnn)
        return counterfactual_request(body, gnn, store.settings, dataset, judges)
    if isinstance(body, GlobalIn):
        return global_request(body, gnn, dataset, store)
    limit = store.settings.exact_nodes
    if dataset.max_nodes > limit and not gnns.classifies_nodes(gnn):
        reject(
            "/dataset",
            f"the largest graph of {dataset.id} has {dataset.max_nodes:,} nodes; class "
            f"explanations accept datasets whose graphs have at most {limit:,}",
        )
    return class_request(body, gnn)


def _wish(body: CounterfactualIn | ClassIn) -> DenoiserWish:
    return DenoiserWish(body.kind, body.explainer, body.denoiser)


def _config(
    session: Session,
    body: CounterfactualIn | ClassIn | GlobalIn,
    gnn: Gnn,
    dataset: Dataset,
    settings: Settings,
) -> DenoiserConfig | None:
    if isinstance(body, GlobalIn):
        return None
    return affordable_config(session, _wish(body), gnn, dataset, settings)


def affordable_config(
    session: Session,
    body: DenoiserWish,
    gnn: Gnn,
    dataset: Dataset,
    settings: Settings,
) -> DenoiserConfig | None:
    """The denoiser's config; rejects a denoiser that would take too long to train.

    None for explainers without a denoiser, such as `search`.
    """
    if not needs_denoiser(body.explainer):
        _reject_denoiser(body)
        return None
    config = _denoiser_config(session, body, gnn, dataset)
    check_training(
        session,
        "/denoiser",
        gnn=gnn,
        dataset=dataset,
        objective=body.kind,
        config=config,
        settings=settings,
    )
    return config


def _reject_denoiser(body: DenoiserWish) -> None:
    given = body.denoiser
    if given is None:
        return
    sent = shown(given) if isinstance(given, str) else given.model_dump_json(exclude_unset=True)
    reject(
        "/denoiser",
        f"is {sent}; the explainer '{body.explainer}' uses no denoiser. Omit `denoiser`, or "
        "set `explainer` to 'd4' or 'd4-paper'",
    )


def _denoiser_config(
    session: Session, body: DenoiserWish, gnn: Gnn, dataset: Dataset
) -> DenoiserConfig:
    """The posted config, or that of the denoiser with the posted id, which must fit."""
    if not isinstance(body.denoiser, str):
        return _posted_config(body)
    with report_at("/denoiser"):
        denoiser = denoisers.get(session, checked_id("denoiser", body.denoiser), gnn.tenant_id)
    if denoiser.objective != body.kind:
        reject(
            "/denoiser",
            f"{denoiser.id} was trained for the objective {denoiser.objective}; "
            f"a {body.kind} explanation needs {body.kind}",
        )
    config = DenoiserConfig.model_validate(denoiser.config)
    if denoisers.key(gnn.sha256, dataset.sha256, body.kind, config) != denoiser.key:
        reject("/denoiser", _why_unfit(denoiser, gnn, dataset))
    return config


def _why_unfit(denoiser: Denoiser, gnn: Gnn, dataset: Dataset) -> str:
    if (denoiser.gnn_id, denoiser.dataset_id) == (gnn.id, dataset.id):
        return (
            f"{denoiser.id} was trained with a recipe of an earlier version that no longer "
            "exists. Omit the id to train another one"
        )
    return (
        f"{denoiser.id} was trained for {denoiser.gnn_id} and {denoiser.dataset_id}, "
        f"not for {gnn.id} and {dataset.id}"
    )


def _posted_config(body: DenoiserWish) -> DenoiserConfig:
    """The posted config; `d4-paper` means the paper's recipe unless another is named."""
    assert not isinstance(body.denoiser, str)
    config = body.denoiser or DenoiserConfig()
    if body.explainer == "d4-paper" and "recipe" not in config.model_fields_set:
        return config.model_copy(update={"recipe": "paper"})
    return config
