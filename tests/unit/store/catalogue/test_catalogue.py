from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.features.feature_schema import FeatureSchemaDocument
from d4explain.contracts.gnn_spec import GnnSpecDocument, parse_spec
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import datasets, denoisers, explanations, gnn_labels, gnns, retries
from store.database.sessions import Database
from store.database.tables import Dataset, Denoiser, Explanation, Gnn
from store.errors import Conflict, GnnNotReady, NotFound
from store.jobs import Job, JobKind, JobState
from tests.store_rows import (
    PASSED,
    claim_job,
    create_dataset,
    create_explanation,
    create_ready_gnn,
)

SPEC = parse_spec(
    {
        "features": 4,
        "classes": 2,
        "layers": [
            {"type": "gcn", "out": 3},
            {"type": "pool", "op": "sum"},
            {"type": "linear", "out": 2},
        ],
    }
)
CONFIG = DenoiserConfig(seed=3)


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.transaction() as session:
        yield session


def ready_gnn(session: Session, tenant: str = "default") -> Gnn:
    return create_ready_gnn(session, spec=SPEC, tenant=tenant)


def reference_set(session: Session) -> Dataset:
    return create_dataset(session, features=SPEC.features)


def explanation_of(session: Session, gnn: Gnn, dataset: Dataset) -> tuple[Explanation, Job]:
    return create_explanation(session, gnn, dataset, CONFIG)


def trained(session: Session, job_id: str) -> Denoiser:
    claim = claim_job(session, job_id)
    denoiser = denoisers.finish(
        session, claim, weights_digest="4" * 64, shape={"hidden": 8}, metrics={"auc": 0.9}
    )
    jobs.succeed(session, claim)
    return denoiser


def fail(session: Session, job_id: str) -> None:
    claim = claim_job(session, job_id)
    jobs.fail(session, claim, "Error", "the loss is NaN", retryable=False)


def test_a_gnn_is_ready_after_its_probe_passed(session: Session) -> None:
    gnn, job = gnns.create(
        session, name="mine", spec=SPEC, weights_digest="1" * 64, tenant=DEFAULT_TENANT
    )
    assert gnn.id.startswith("gnn_")
    assert (gnn.state, job.kind, job.queue, job.gnn_id) == ("probing", "probe", "light", gnn.id)
    assert GnnSpecDocument.model_validate(gnn.spec) == SPEC
    with pytest.raises(GnnNotReady, match="probing"):
        gnns.require_ready(session, gnn.id, tenant=DEFAULT_TENANT)
    gnns.finish(session, claim_job(session, job.id), PASSED)
    assert gnns.require_ready(session, gnn.id, tenant=DEFAULT_TENANT).report == PASSED.model_dump()


def test_a_gnn_that_fails_its_probe_is_rejected(session: Session) -> None:
    gnn, job = gnns.create(
        session, name="mine", spec=SPEC, weights_digest="1" * 64, tenant=DEFAULT_TENANT
    )
    gnns.finish(session, claim_job(session, job.id), ProbeReport(passed=False, checks=[]))
    with pytest.raises(GnnNotReady, match="rejected"):
        gnns.require_ready(session, gnn.id, tenant=DEFAULT_TENANT)


def test_a_failed_probe_job_rejects_the_gnn_and_a_retry_probes_again(session: Session) -> None:
    gnn, job = gnns.create(
        session, name="mine", spec=SPEC, weights_digest="1" * 64, tenant=DEFAULT_TENANT
    )
    fail(session, job.id)
    session.refresh(gnn)
    assert gnn.state == "rejected"
    assert gnn.report is not None
    assert gnn.report["checks"][0]["detail"] == "the loss is NaN"
    again = retries.retry(session, job.id, tenant=DEFAULT_TENANT)
    session.refresh(gnn)
    assert (gnn.state, gnn.job_id) == ("probing", again.id)
    assert gnn.report is None


def test_the_hash_of_a_gnn_ignores_class_names_and_feature_names(session: Session) -> None:
    columns = [{"name": f"f{i}"} for i in range(SPEC.features)]
    schema = FeatureSchemaDocument.model_validate({"features": columns})
    named = SPEC.model_copy(update={"class_names": ["no", "yes"], "feature_schema": schema})
    assert gnns.content_hash(named, "1" * 64) == gnns.content_hash(SPEC, "1" * 64)
    other = SPEC.model_copy(update={"features": 5})
    hashes = {gnns.content_hash(spec, weights * 64) for spec in (SPEC, other) for weights in "12"}
    assert len(hashes) == 4


def test_the_hash_of_a_gnn_is_stable_across_versions(session: Session) -> None:
    """Denoisers are looked up by this hash; another hash would train them again."""
    layers = [layer.model_dump(mode="json") for layer in SPEC.layers]
    document = {"features": SPEC.features, "classes": SPEC.classes, "layers": layers}
    text = json.dumps(document, separators=(",", ":"))
    expected = hashlib.sha256(f"{text}\n{'1' * 64}".encode()).hexdigest()
    assert gnns.content_hash(SPEC, "1" * 64) == expected


def test_names_versions_and_aliases_belong_to_a_tenant(session: Session) -> None:
    mine = ready_gnn(session)
    theirs = ready_gnn(session, tenant="other")
    assert (mine.version, theirs.version) == (1, 1)
    gnn_labels.set_alias(session, "production", theirs)
    assert gnns.find(session, "gnn@1", tenant=DEFAULT_TENANT).id == mine.id
    assert gnns.find(session, "gnn@production", "other").id == theirs.id
    for reference in ("gnn@production", theirs.id):
        with pytest.raises(NotFound):
            gnns.find(session, reference, tenant=DEFAULT_TENANT)
    with pytest.raises(NotFound):
        gnn_labels.remove_alias(session, "gnn", "production", tenant=DEFAULT_TENANT)


def test_a_denoiser_is_trained_once(session: Session) -> None:
    gnn, dataset = ready_gnn(session), reference_set(session)
    first, job = explanation_of(session, gnn, dataset)
    second, other_job = explanation_of(session, gnn, dataset)
    assert first.denoiser_id == second.denoiser_id
    assert job.waiting_for == other_job.waiting_for
    assert job.waiting_for is not None
    training = jobs.get(session, job.waiting_for, tenant=DEFAULT_TENANT)
    assert (training.kind, training.queue, training.seed) == ("train", "train", 3)
    assert training.subject_id == training.denoiser_id == first.denoiser_id

    denoiser = trained(session, training.id)
    assert (denoiser.state, denoiser.shape, denoiser.job_id) == (
        "ready",
        {"hidden": 8},
        training.id,
    )
    _, third = explanation_of(session, gnn, dataset)
    assert third.waiting_for is None
    trainings = session.scalars(select(Job).where(Job.kind == JobKind.TRAIN)).all()
    assert len(trainings) == 1


def test_the_denoiser_key_depends_on_gnn_dataset_objective_and_config(session: Session) -> None:
    keys = {
        denoisers.key(gnn, dataset, objective, config)
        for gnn in "ab"
        for dataset in "ab"
        for objective in ("counterfactual", "class")
        for config in (CONFIG, DenoiserConfig(steps=5))
    }
    assert len(keys) == 16


def test_equal_gnns_and_datasets_share_a_denoiser(session: Session) -> None:
    gnn, equal_gnn = ready_gnn(session), ready_gnn(session)
    dataset, equal_dataset = reference_set(session), reference_set(session)
    first, _ = explanation_of(session, gnn, dataset)
    second, _ = explanation_of(session, equal_gnn, equal_dataset)
    assert first.denoiser_id == second.denoiser_id


def test_tenants_cannot_read_resources_of_each_other(session: Session) -> None:
    gnn = ready_gnn(session)
    for get in (gnns.get, gnns.require_ready, gnns.delete):
        with pytest.raises(NotFound):
            get(session, gnn.id, tenant="another")
    dataset = reference_set(session)
    explanation, _ = explanation_of(session, gnn, dataset)
    for module, id_ in (
        (datasets, dataset.id),
        (denoisers, explanation.denoiser_id),
        (explanations, explanation.id),
    ):
        assert module.get(session, id_, tenant=DEFAULT_TENANT).id == id_
        with pytest.raises(NotFound):
            module.get(session, id_, tenant="another")
        assert module.page(session, tenant="another").items == []
    their_gnn = ready_gnn(session, tenant="another")
    their_dataset = create_dataset(session, tenant="another")
    theirs, _ = explanation_of(session, their_gnn, their_dataset)
    assert theirs.denoiser_id != explanation.denoiser_id
    with pytest.raises(NotFound):
        explanation_of(session, their_gnn, dataset)


def test_a_failed_training_fails_its_explanations_and_a_retry_trains_again(
    session: Session,
) -> None:
    gnn, dataset = ready_gnn(session), reference_set(session)
    explanation, job = explanation_of(session, gnn, dataset)
    assert job.waiting_for is not None
    training_id = job.waiting_for
    fail(session, training_id)
    denoiser = denoisers.get(session, explanation.denoiser_id, tenant=DEFAULT_TENANT)
    assert denoiser.state == "failed"
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert "the loss is NaN" in job.error["message"]

    again = retries.retry(session, job.id, tenant=DEFAULT_TENANT)
    assert (again.retry_of, again.subject_id, again.seed) == (job.id, explanation.id, 11)
    assert again.request_digest == job.request_digest
    assert explanation.job_id == again.id
    assert again.waiting_for not in (None, training_id)
    session.refresh(denoiser)
    assert (denoiser.state, denoiser.job_id) == ("training", again.waiting_for)

    trained(session, denoiser.job_id)
    assert again.waiting_for is None
    claim = claim_job(session, again.id)
    explanations.finish(session, claim, result_digest="5" * 64, summary={"found": 1})
    jobs.succeed(session, claim)
    assert (explanation.result_digest, explanation.summary) == ("5" * 64, {"found": 1})


def test_a_retried_training_replaces_the_training_of_the_denoiser(session: Session) -> None:
    gnn, dataset = ready_gnn(session), reference_set(session)
    denoiser, training = denoisers.get_or_create(
        session, gnn=gnn, dataset=dataset, objective="class", config=CONFIG
    )
    assert training is not None
    claim = claim_job(session, training.id)
    jobs.record_checkpoint(session, claim, "6" * 64, 40)
    jobs.cancel(session, training.id, tenant=DEFAULT_TENANT)
    jobs.cancel_running(session, claim)
    session.refresh(denoiser)
    assert denoiser.state == "failed"
    again = retries.retry(session, training.id, tenant=DEFAULT_TENANT)
    assert (again.retry_of, denoiser.job_id, denoiser.state) == (
        training.id,
        again.id,
        "training",
    )
    assert again.checkpoint == {"digest": "6" * 64, "step": 40}  # it resumes
    with pytest.raises(Conflict, match=again.id):
        retries.retry(session, training.id, tenant=DEFAULT_TENANT)
    trained(session, again.id)
    with pytest.raises(Conflict, match="succeeded"):
        retries.retry(session, again.id, tenant=DEFAULT_TENANT)


def test_the_retry_of_a_failed_training_ignores_its_checkpoint(session: Session) -> None:
    _, training = denoisers.get_or_create(
        session,
        gnn=ready_gnn(session),
        dataset=reference_set(session),
        objective="class",
        config=CONFIG,
    )
    assert training is not None
    claim = claim_job(session, training.id)
    jobs.record_checkpoint(session, claim, "6" * 64, 40)
    jobs.fail(session, claim, "Error", "the loss is NaN", retryable=False)
    assert retries.retry(session, training.id, tenant=DEFAULT_TENANT).checkpoint is None


def test_a_job_can_be_retried_only_once(session: Session) -> None:
    gnn = ready_gnn(session)
    job = jobs.submit(
        session, kind=JobKind.PREDICT, gnn_id=gnn.id, request_digest="7" * 64, tenant=DEFAULT_TENANT
    )
    jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
    again = retries.retry(session, job.id, tenant=DEFAULT_TENANT)
    assert (again.retry_of, again.request_digest, again.state) == (job.id, "7" * 64, "queued")
    with pytest.raises(Conflict, match=again.id):
        retries.retry(session, job.id, tenant=DEFAULT_TENANT)
    jobs.cancel(session, again.id, tenant=DEFAULT_TENANT)
    assert retries.retry(session, again.id, tenant=DEFAULT_TENANT).retry_of == again.id


def test_resources_of_unfinished_jobs_cannot_be_deleted(session: Session) -> None:
    gnn, dataset = ready_gnn(session), reference_set(session)
    explanation, job = explanation_of(session, gnn, dataset)
    with pytest.raises(Conflict, match=gnn.id):
        gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    with pytest.raises(Conflict, match=dataset.id):
        datasets.delete(session, dataset.id, tenant=DEFAULT_TENANT)
    assert job.waiting_for is not None
    jobs.cancel(session, job.waiting_for, tenant=DEFAULT_TENANT)
    gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    datasets.delete(session, dataset.id, tenant=DEFAULT_TENANT)
    with pytest.raises(NotFound):
        gnns.get(session, gnn.id, tenant=DEFAULT_TENANT)
    with pytest.raises(NotFound):
        datasets.get(session, dataset.id, tenant=DEFAULT_TENANT)
    assert (
        explanations.get(session, explanation.id, tenant=DEFAULT_TENANT).gnn_id == gnn.id
    )  # explanations stay
    with pytest.raises(Conflict, match="deleted"):
        retries.retry(session, job.id, tenant=DEFAULT_TENANT)


def test_a_denoiser_is_deleted_with_the_last_of_several_equal_gnns(session: Session) -> None:
    gnn, equal_gnn = ready_gnn(session), ready_gnn(session)
    dataset, equal_dataset = reference_set(session), reference_set(session)
    _, job = explanation_of(session, gnn, dataset)
    assert job.waiting_for is not None
    denoiser = trained(session, job.waiting_for)
    jobs.cancel(session, job.id, tenant=DEFAULT_TENANT)
    gnns.delete(session, gnn.id, tenant=DEFAULT_TENANT)
    datasets.delete(session, dataset.id, tenant=DEFAULT_TENANT)
    session.refresh(denoiser)
    assert (denoiser.gnn_id, denoiser.dataset_id) == (equal_gnn.id, equal_dataset.id)
    _, again = explanation_of(session, equal_gnn, equal_dataset)
    assert again.waiting_for is None
    jobs.cancel(session, again.id, tenant=DEFAULT_TENANT)
    gnns.delete(session, equal_gnn.id, tenant=DEFAULT_TENANT)
    with pytest.raises(NotFound):
        denoisers.get(session, denoiser.id, tenant=DEFAULT_TENANT)


def test_pages_list_every_row_once_newest_first(session: Session) -> None:
    created = [reference_set(session) for _ in range(7)]
    newest_first = sorted(created, key=lambda row: (row.created_at, row.id), reverse=True)
    shown, cursor = [], None
    while True:
        page = datasets.page(session, cursor, 3, tenant=DEFAULT_TENANT)
        shown += [row.id for row in page.items]
        if cursor is None:
            reference_set(session)  # added while the client reads pages
        cursor = page.next_cursor
        if cursor is None:
            break
    assert shown == [row.id for row in newest_first]
    assert datasets.page(session, None, 8, tenant=DEFAULT_TENANT).next_cursor is None


def test_jobs_are_listed_by_state_kind_and_gnn(session: Session) -> None:
    gnn = ready_gnn(session)
    _, job = explanation_of(session, gnn, reference_set(session))
    waiting = jobs.page(
        session, state=JobState.QUEUED, kind=JobKind.COUNTERFACTUAL, tenant=DEFAULT_TENANT
    )
    assert [row.id for row in waiting.items] == [job.id]
    assert len(jobs.page(session, gnn_id=gnn.id, tenant=DEFAULT_TENANT).items) == 3
    assert jobs.page(session, gnn_id="gnn_other", tenant=DEFAULT_TENANT).items == []


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", "[]", "WzFd", "WzEsMl0", "W251bGwsImEiXQ", "WyJhIiwiYiJd"]
)
def test_invalid_cursors_are_refused(session: Session, cursor: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        datasets.page(session, cursor, 3, tenant=DEFAULT_TENANT)
    assert refused.value.pointer == "/cursor"


def test_ids_sort_by_time(session: Session) -> None:
    created = [reference_set(session) for _ in range(3)]
    times = [row.created_at for row in created]
    assert times == sorted(times)
    assert all(len(row.id) == len("set_") + 20 for row in created)
