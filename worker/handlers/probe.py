"""Probes a GNN: it becomes ready, or rejected with the report that says why."""

from __future__ import annotations

from sqlalchemy.orm import Session

from store import gnns
from store.results import ProbeCheck, ProbeReport
from store.tables import Gnn
from worker.conformance import probe
from worker.failures import failure_of
from worker.subjects import gnn_of
from worker.work import Outcome, Work


def probe_gnn(work: Work) -> Outcome:
    report = _report(work, gnn_of(work))

    def record(session: Session) -> None:
        gnns.finish(session, work.claim, report)

    return Outcome(result={"kind": "probe", "passed": report.passed}, record=record)


def _report(work: Work, row: Gnn) -> ProbeReport:
    try:
        gnn = work.library.gnn(row)
    except Exception as error:
        if failure_of(error).retryable:
            raise
        check = ProbeCheck(name="loads", passed=False, detail=str(error))
        return ProbeReport(passed=False, checks=[check])
    return probe(gnn, work.library.device)
