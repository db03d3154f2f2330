"""Probes a GNN: it becomes ready, or rejected with the report that says why."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from d4explain.contracts.errors import PluginError
from d4explain.contracts.requests import CanonicalGraph, ProbeRequest
from d4explain.contracts.results import ProbeCheck, ProbeReport
from store.catalogue import gnns
from store.database.tables import Gnn
from worker.execution.failures import failure_of
from worker.execution.handler_api import Outcome, Work
from worker.loading.job_inputs import gnn_of, request_bytes
from worker.loading.library import graph_of
from worker.loading.open_gnn import open_gnn
from worker.probing.conformance import probe
from worker.probing.labelled_samples import SampledNode, Samples


def probe_gnn(work: Work) -> Outcome:
    report = _report(work, gnn_of(work))

    def record(session: Session) -> None:
        gnns.finish(session, work.claim, report)

    return Outcome(result={"kind": "probe", "passed": report.passed}, record=record)


def _report(work: Work, row: Gnn) -> ProbeReport:
    try:
        # asked anew every time, or two passes would always be alike
        gnn = open_gnn(work, row, remembers=False)
    except PluginError:
        raise  # the worker's fault, and the job's error says so
    except Exception as error:
        if failure_of(error).retryable:
            raise
        check = ProbeCheck(name="loads", passed=False, detail=str(error))
        return ProbeReport(passed=False, checks=[check])
    return probe(gnn, work.library.device, _samples(work, gnn.spec.edge_features))


def _samples(work: Work, edge_features: int) -> Samples | None:
    """The labelled graphs or nodes that the GNN was registered with."""
    if work.claim.request_digest is None:
        return None
    request = ProbeRequest.model_validate_json(request_bytes(work))
    return Samples(
        graphs=[graph_of(document, edge_features) for document in request.graphs],
        labels=request.labels,
        min_accuracy=request.min_accuracy,
        nodes=None if request.nodes is None else _nodes(request.graphs, request.nodes),
    )


def _nodes(
    documents: Sequence[CanonicalGraph], labelled: Sequence[Sequence[int]]
) -> list[SampledNode]:
    return [
        SampledNode(graph, node, document.node_ids[node])
        for graph, (document, nodes) in enumerate(zip(documents, labelled, strict=True))
        for node in nodes
    ]
