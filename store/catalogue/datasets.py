"""Reference sets: graphs of the distribution a GNN was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from d4explain.contracts.errors import printable, quoted
from d4explain.contracts.job_states import JobState
from d4explain.resource_names import DATASET
from store.catalogue import trained_networks
from store.catalogue.data_life import deletions
from store.catalogue.data_life.holds import refuse_if_held
from store.catalogue.gnn_names import parse_reference
from store.catalogue.name_versions import next_version
from store.database import artifact_ledger
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.tables import Dataset, DatasetName, Job
from store.database.tables.base import JsonObject
from store.errors import Conflict, NotFound

_SHOWN = 5  # versions that an error message lists
_BY_ID = (  # built once: every submission runs it
    select(Dataset)
    .where(Dataset.id == bindparam("id"), Dataset.tenant_id == bindparam("tenant"))
    .execution_options(populate_existing=True)
)


def create(
    session: Session,
    *,
    name: str,
    gnn_features: int,
    graphs_digest: str,
    sha256: str,
    graph_count: int,
    label_counts: Mapping[str, int],
    max_nodes: int,
    mean_nodes: float,
    mean_edges: float,
    tenant: str,
    edge_features: int = 0,
    large: bool = False,
    warnings: Sequence[str] = (),
    metadata: JsonObject | None = None,
) -> Dataset:
    """Creates the next version of this name.

    Takes the hash and figures of `graph_sets.canonical_set_hash` and `graph_sets.describe`.
    """
    dataset = Dataset(
        id=new_id("set"),
        tenant_id=tenant,
        name=name,
        version=next_version(session, DatasetName, name, tenant),
        sha256=sha256,
        graphs_digest=graphs_digest,
        graph_count=graph_count,
        features=gnn_features,
        edge_features=edge_features,
        label_counts=dict(label_counts),
        max_nodes=max_nodes,
        mean_nodes=mean_nodes,
        mean_edges=mean_edges,
        large=large,
        warnings=list(warnings) or None,
        caller_metadata=metadata or None,
    )
    session.add(dataset)
    session.flush()
    caller_metadata.write(session, [dataset])
    artifact_ledger.refer(session, tenant, graphs_digest)
    session.refresh(dataset)  # the database set `created_at`
    return dataset


def get(session: Session, dataset_id: str, tenant: str) -> Dataset:
    dataset = session.scalar(_BY_ID, {"id": dataset_id, "tenant": tenant})
    if dataset is None:
        raise NotFound("dataset", dataset_id)
    return dataset


def find(session: Session, reference: str, tenant: str) -> Dataset:
    """Finds a reference set by `set_…`, `name@2`, or `name` for its newest version."""
    parsed = parse_reference(reference, DATASET)
    if parsed is None:
        raise NotFound("dataset", reference)
    if parsed.id is not None:
        return get(session, parsed.id, tenant)
    if parsed.alias is not None:
        raise NotFound(
            "dataset",
            reference,
            f"the version of a dataset is a number, such as {printable(parsed.name or '')}@1; "
            f"got {quoted(parsed.alias or '')}",
        )
    mine = select(Dataset).where(Dataset.tenant_id == tenant, Dataset.name == parsed.name)
    newest = mine.order_by(Dataset.version.desc()).limit(_SHOWN)
    if parsed.version is not None:
        found = session.scalar(mine.where(Dataset.version == parsed.version))
    else:
        found = session.scalar(newest)
    if found is not None:
        return found
    versions = ", ".join(str(dataset.version) for dataset in session.scalars(newest))
    name = printable(parsed.name or "")
    message = f"there is no dataset called {name!r}"
    if versions:
        message = f"the dataset {name!r} has no version {parsed.version}; its newest: {versions}"
    raise NotFound("dataset", reference, message)


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    name: str | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Dataset]:
    query = filters.applied_to(select(Dataset).where(Dataset.tenant_id == tenant), Dataset, tenant)
    if name is not None:
        query = query.where(Dataset.name == name)
    return page_of(session, query, Dataset, cursor, limit)


def delete(session: Session, dataset_id: str, tenant: str) -> None:
    """Deletes the set and what was trained for it; explanations are kept as records."""
    dataset = session.scalar(
        select(Dataset)
        .where(Dataset.id == dataset_id, Dataset.tenant_id == tenant)
        .with_for_update()
    )
    if dataset is None:
        raise NotFound("dataset", dataset_id)
    refuse_if_held(session, dataset.id, tenant=tenant)
    user = session.scalar(
        select(Job.id)
        .where(Job.dataset_id == dataset.id, Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .limit(1)
    )
    if user is not None:
        raise Conflict(
            f"dataset {dataset.id} is in use by job {user}; cancel the job or wait until it ends"
        )
    trained_networks.release_dataset(session, dataset)
    deletions.note(session, "dataset", dataset.id, tenant, [dataset.graphs_digest])
    session.delete(dataset)
    session.flush()
