"""Checks a posted evaluation, estimates its cost and writes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from d4explain.contracts.evaluations.requests import WITH_DENOISER, EvaluationRequest
from d4explain.contracts.requests import Constraints, DenoiserConfig
from service.evaluation_models import (
    EvaluationEstimate,
    EvaluationIn,
    ExplainerEstimate,
    HeldOutIn,
)
from service.graph_io.features.gnn_features import check_column_rules
from service.http.faults import reject
from service.http.idempotency import Created, Submission, already_created, create_once
from service.http.json_bodies import parse_model
from service.submission import cost_estimates
from service.submission.evaluations.evaluation_sets import Instances, chosen_instances, rest_set
from service.submission.explanation_checks import DenoiserWish, affordable_config
from service.submission.judges import MIN_GRAPHS, judge_ids
from service.submission.request_webhooks import checked_webhook
from service.submission.resource_ids import find_gnn_and_dataset, report_at
from service.submission.training_costs import training_seconds, witness_seconds
from store import jobs
from store.artifacts import graph_sets
from store.catalogue import datasets, denoisers, gnns, trained_networks, witness_sets
from store.catalogue.black_boxes import is_black_box
from store.catalogue.data_life.input_locks import lock_inputs
from store.catalogue.evaluations import evaluations
from store.catalogue.evaluations.evaluations import NewEvaluation
from store.database.tables import Dataset, Denoiser, Gnn, WitnessSet
from store.store import Store
from store.webhooks import endpoints

_SHARD_SECONDS = (
    10.0  # estimated work of a shard: other jobs wait for it, and a dead worker's is lost
)
_MAX_SHARD = 50
_BELIEVABLE_TIMES = 10  # as in `cost_estimates`
_SEARCHES = frozenset({"d4", "search"})  # which have the aim
# Of the noisy copies of one graph and one answer, and of C2ST's classifiers per pair.
_ROBUSTNESS_SECONDS = 0.03
_C2ST_SECONDS = 0.15


@dataclass(frozen=True)
class _Checked:
    body: EvaluationIn
    gnn: Gnn
    dataset: Dataset  # that was posted
    config: DenoiserConfig | None  # None if no denoiser is needed
    no_witnesses: str | None
    judges: list[str]
    instances: Instances
    seconds: dict[str, float]  # of all instances, by explainer


def create(store: Store, body: bytes, submission: Submission) -> Created:
    """Writes the evaluation, or returns the one that the same key created."""
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body, EvaluationIn)
    webhook = checked_webhook(posted.webhook, store.settings)
    checked = _check(store, posted, submission.tenant)
    artifacts = store.artifacts.of(submission.tenant)
    graphs_digest = artifacts.put(checked.instances.packed)
    request_digest = artifacts.put(_request(checked, graphs_digest).model_dump_json().encode())
    rest = checked.instances.rest
    rest_digest = None if rest is None else artifacts.put(graph_sets.pack(rest))

    def create_row(session: Session) -> str:
        gnn, dataset = find_gnn_and_dataset(
            session, checked.gnn.id, checked.dataset.id, submission.tenant, lock=True
        )
        if rest is not None:
            dataset = rest_set(session, dataset, rest, rest_digest or "")
        lock_inputs(session, gnn, dataset)
        denoiser = train_job = witness_set = witness_job = None
        if checked.config is not None:
            denoiser, train_job = denoisers.get_or_create(
                session,
                gnn=gnn,
                dataset=dataset,
                objective="counterfactual",
                config=checked.config,
                estimated_seconds=training_seconds("counterfactual", checked.config, dataset),
            )
        if checked.no_witnesses is None:
            witness_set, witness_job = witness_sets.get_or_create(
                session,
                gnn=gnn,
                dataset=dataset,
                estimated_seconds=witness_seconds(gnn, dataset),
            )
        count = len(checked.instances.positions)
        evaluation = evaluations.create(
            session,
            NewEvaluation(
                gnn=gnn,
                dataset=dataset,
                test_dataset_id=checked.instances.test.dataset,
                denoiser=denoiser,
                train_job=train_job,
                witness_set=witness_set,
                witness_job=witness_job,
                explainers=posted.explainers,
                instance_count=count,
                shard_size=_shard_size(checked),
                instance_seconds=sum(checked.seconds.values()) / count,
                request_digest=request_digest,
                graphs_digest=graphs_digest,
                seed=posted.seed,
                metadata=posted.metadata,
            ),
        )
        if webhook is not None:
            job = jobs.get(session, evaluation.job_id, submission.tenant)
            endpoints.add_all(session, [(webhook, job)])
        return evaluation.id

    return create_once(store, submission, create_row)


def estimate(store: Store, tenant: str, body: bytes) -> EvaluationEstimate:
    """Checks a request as usual and estimates its cost; writes nothing."""
    posted = parse_model(body, EvaluationIn)
    checked_webhook(posted.webhook, store.settings)
    checked = _check(store, posted, tenant)
    training = judging = None
    dataset, rest = checked.dataset, checked.instances.rest
    sha256 = dataset.sha256 if rest is None else graph_sets.canonical_set_hash(rest)
    with store.database.reading() as session:
        if checked.config is not None:
            whole = training_seconds("counterfactual", checked.config, dataset)
            key = denoisers.key(checked.gnn.sha256, sha256, "counterfactual", checked.config)
            training = trained_networks.seconds_left(session, Denoiser, key, whole, tenant)
        if checked.no_witnesses is None:
            whole = witness_seconds(checked.gnn, dataset)
            key = witness_sets.key(checked.gnn.sha256, sha256)
            judging = trained_networks.seconds_left(session, WitnessSet, key, whole, tenant)
    count = len(checked.instances.positions)
    c2st = _C2ST_SECONDS * count if "c2st" in posted.metrics else 0.0
    seconds = sum(checked.seconds.values()) + c2st * len(posted.explainers)
    return EvaluationEstimate(
        instances=count,
        shards=math.ceil(count / _shard_size(checked)),
        explainers=[
            ExplainerEstimate(explainer=name, seconds=_rounded(value + c2st))
            for name, value in checked.seconds.items()
        ],
        metric_seconds=_metric_seconds(checked.body, checked.instances.sizes, store),
        seconds=_rounded(seconds),
        trains_denoiser=training is not None,
        trains_witnesses=judging is not None,
        denoiser_seconds=_rounded(training or 0.0),
        witness_seconds=_rounded(judging or 0.0),
        total_seconds=_rounded(seconds + (training or 0.0) + (judging or 0.0)),
    )


def _check(store: Store, posted: EvaluationIn, tenant: str) -> _Checked:
    _check_lists(posted)
    with store.database.reading() as session:
        gnn, dataset = find_gnn_and_dataset(session, posted.gnn, posted.dataset, tenant)
        _check_kind(gnn, dataset)
        judges = judge_ids(session, posted.judges, gnn)
        test = dataset
        if not isinstance(posted.test, HeldOutIn):
            with report_at("/test"):
                test = datasets.find(session, posted.test, tenant)
            _check_fits(gnn, test)
        config = _denoiser(session, posted, gnn, dataset, store)
    check_column_rules(store, gnn, dataset)
    check_column_rules(store, gnn, test)
    share = posted.test.held_out if isinstance(posted.test, HeldOutIn) else None
    instances = chosen_instances(
        store, test, count=posted.count, seed=posted.seed, held_out_share=share
    )
    _check_sizes(instances, store)
    reference_count = dataset.graph_count if instances.rest is None else len(instances.rest)
    return _Checked(
        body=posted,
        gnn=gnn,
        dataset=dataset,
        config=config,
        no_witnesses=_why_no_witnesses(posted, reference_count),
        judges=judges,
        instances=instances,
        seconds=_explainer_seconds(posted, instances.sizes, store),
    )


def _check_lists(posted: EvaluationIn) -> None:
    for at, names in (("/explainers", posted.explainers), ("/metrics", posted.metrics)):
        for place, name in enumerate(names):
            if name in names[:place]:
                reject(f"{at}/{place}", f"{name!r} is already listed")
    both = WITH_DENOISER & set(posted.explainers)
    if len(both) > 1:
        reject(
            "/explainers",
            "contains 'd4' and 'd4-paper', which need different denoisers; evaluate each on its "
            "own and compare the evaluations",
        )


def _check_kind(gnn: Gnn, dataset: Dataset) -> None:
    if gnns.classifies_nodes(gnn):
        reject("/gnn", f"{gnn.id} classifies nodes; evaluations are of GNNs that classify graphs")
    if is_black_box(gnn):
        reject(
            "/gnn",
            f"{gnn.id} is behind a URL; an evaluation would send it many thousands of graphs",
        )
    if dataset.large:
        reject("/dataset", f"{dataset.id} is one large graph; evaluations need sets of graphs")


def _check_fits(gnn: Gnn, test: Dataset) -> None:
    if test.large:
        reject("/test", f"{test.id} is one large graph; evaluations need sets of graphs")
    if test.features != gnn.spec["features"]:
        reject(
            "/test",
            f"the graphs of {test.id} have {test.features:,} features per node; the GNN {gnn.id} "
            f"takes {gnn.spec['features']:,}",
        )
    on_edges = gnns.edge_features(gnn)
    if on_edges and test.edge_features != on_edges:
        reject(
            "/test",
            f"the edges of {test.id} have {test.edge_features or 'no'} attributes; the GNN "
            f"{gnn.id} takes {on_edges} per edge",
        )


def _check_sizes(instances: Instances, store: Store) -> None:
    limit = store.settings.exact_nodes
    largest = max(nodes for nodes, _ in instances.sizes)
    if largest > limit:
        reject(
            "/test",
            f"a chosen graph has {largest:,} nodes; evaluations accept graphs of at most "
            f"{limit:,} (D4_EXACT_NODES)",
        )


def _denoiser(
    session: Session, posted: EvaluationIn, gnn: Gnn, dataset: Dataset, store: Store
) -> DenoiserConfig | None:
    """The config of the denoiser that an explainer or a metric needs; None without one."""
    needing = sorted(WITH_DENOISER & set(posted.explainers))
    if not needing and "typicality" in posted.metrics:
        needing = ["d4"]
    if not needing:
        if posted.denoiser is not None:
            reject("/denoiser", "no explainer and no metric of this request uses a denoiser")
        return None
    if isinstance(posted.denoiser, str) and isinstance(posted.test, HeldOutIn):
        reject(
            "/denoiser",
            f"{posted.denoiser} was trained with the held-out part; give a config instead of an id",
        )
    wish = DenoiserWish("counterfactual", needing[0], posted.denoiser)
    return affordable_config(session, wish, gnn, dataset, store.settings)


def _why_no_witnesses(posted: EvaluationIn, reference_count: int) -> str | None:
    if posted.judges == "none" and posted.aim == "minimal":
        return "the request asks for no judges and minimal answers"
    if "transfer" not in posted.metrics and posted.aim == "minimal":
        return "the metric 'transfer' is not asked for and the answers are minimal"
    if reference_count < MIN_GRAPHS:
        return f"witnesses need {MIN_GRAPHS} reference graphs; there are {reference_count}"
    return None


def _request(checked: _Checked, graphs_digest: str) -> EvaluationRequest:
    body = checked.body
    return EvaluationRequest(
        test=checked.instances.test,
        graphs_sha256=graphs_digest,
        positions=checked.instances.positions,
        explainers=body.explainers,
        metrics=body.metrics,
        aim=body.aim,
        alternatives=body.alternatives,
        judges="none" if body.judges == "none" else checked.judges,
        no_witnesses=checked.no_witnesses,
        constraints=Constraints(**body.constraints.model_dump()),
        preset=body.preset,
        stability_seeds=body.stability_seeds,
        seed=body.seed,
    )


def _shard_size(checked: _Checked) -> int:
    per_instance = sum(checked.seconds.values()) / len(checked.instances.positions)
    return min(_MAX_SHARD, max(1, round(_SHARD_SECONDS / per_instance)))


def _explainer_seconds(
    posted: EvaluationIn, sizes: Sequence[tuple[int, int]], store: Store
) -> dict[str, float]:
    """Of all instances in the shards, as an order of magnitude; C2ST is no part of them."""
    search = _search_seconds(sizes, store)
    count = len(sizes)
    seconds: dict[str, float] = {}
    for name in posted.explainers:
        own = search * (_BELIEVABLE_TIMES if _is_believable(posted, name) else 1)
        if "stability" in posted.metrics:
            own *= 1 + posted.stability_seeds
        if "robustness" in posted.metrics:
            own += _ROBUSTNESS_SECONDS * count
        seconds[name] = own
    return seconds


def _metric_seconds(
    posted: EvaluationIn, sizes: Sequence[tuple[int, int]], store: Store
) -> dict[str, float]:
    search, count, names = _search_seconds(sizes, store), len(sizes), posted.explainers
    once = sum(
        search * (_BELIEVABLE_TIMES if _is_believable(posted, name) else 1) for name in names
    )
    costs = {
        "robustness": _ROBUSTNESS_SECONDS * count * len(names),
        "stability": once * posted.stability_seeds,
        "c2st": _C2ST_SECONDS * count * len(names),
    }
    return {name: _rounded(value) for name, value in costs.items() if name in posted.metrics}


def _search_seconds(sizes: Sequence[tuple[int, int]], store: Store) -> float:
    return sum(
        cost_estimates.of_graph(nodes, edges, store.settings).seconds for nodes, edges in sizes
    )


def _is_believable(posted: EvaluationIn, explainer: str) -> bool:
    return posted.aim != "minimal" and explainer in _SEARCHES


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.2g}")
