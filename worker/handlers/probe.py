"""Probes a GNN, which becomes ready, or rejected with a report of the failed checks."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from d4explain.contracts.errors import PluginError
from d4explain.contracts.probe_reports import ProbeCheck, ProbeReport
from d4explain.contracts.requests import CanonicalGraph, ProbeRequest
from store.catalogue import gnns
from store.database.tables import Gnn
from worker.execution.failures import failure_of
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.loading.graph_conversion import graph_of
from worker.loading.job_inputs import read_gnn, read_request
from worker.loading.open_gnn import open_gnn
from worker.probing.conformance import probe
from worker.probing.labelled_samples import SampledNode, Samples


def handle_probe(context: HandlerContext) -> HandlerOutput:
    report = probe_gnn(context, read_gnn(context.store, context.claim))

    def record(session: Session) -> None:
        gnns.finish(session, context.claim, report)

    return HandlerOutput(result={"kind": "probe", "passed": report.passed}, record=record)


def probe_gnn(context: HandlerContext, row: Gnn) -> ProbeReport:
    try:
        # Cached answers would make the determinism check pass for every black box.
        gnn = open_gnn(context.library, context.store.settings, row, caches_answers=False)
    except PluginError:
        raise  # this worker lacks the plug-in; the GNN is not to blame
    except Exception as error:
        if failure_of(error).retryable:
            raise
        check = ProbeCheck(name="loads", passed=False, detail=str(error))
        return ProbeReport(passed=False, checks=[check])
    if context.claim.request_digest is None:
        return probe(gnn, context.library.device)
    request = ProbeRequest.model_validate_json(read_request(context.store, context.claim))
    report = probe(gnn, context.library.device, _samples(request, gnn.spec.edge_features))
    return report.model_copy(update={"warnings": [*request.warnings, *report.warnings]})


def _samples(request: ProbeRequest, edge_features: int) -> Samples:
    """The labelled graphs or nodes that were registered with the GNN."""
    return Samples(
        graphs=[graph_of(document, edge_features) for document in request.graphs],
        labels=request.labels,
        min_accuracy=request.min_accuracy,
        nodes=None if request.nodes is None else _sampled_nodes(request.graphs, request.nodes),
    )


def _sampled_nodes(
    documents: Sequence[CanonicalGraph], labelled: Sequence[Sequence[int]]
) -> list[SampledNode]:
    return [
        SampledNode(graph, node, document.node_ids[node])
        for graph, (document, nodes) in enumerate(zip(documents, labelled, strict=True))
        for node in nodes
    ]
