"""The GNN of a job, ready to be asked: loaded, or a black box with this job's budget."""

from __future__ import annotations

from d4explain.gnn.network import Gnn
from store.catalogue.black_boxes import is_black_box, url_of
from store.database.tables import Gnn as GnnRow
from worker.execution.handler_api import Work
from worker.loading.black_box import BlackBox
from worker.loading.library import spec_of
from worker.loading.predict_client import PredictClient


def open_gnn(work: Work, row: GnnRow, *, queries: int | None = None, remembers: bool = True) -> Gnn:
    """A black box is opened anew for every job: its answers are not kept beyond."""
    if not is_black_box(row):
        return work.library.gnn(row)
    settings = work.store.settings
    gnn = Gnn(spec_of(row)).to(work.library.device).eval()
    box = black_box_of(gnn)
    assert box is not None
    budget = settings.black_box_queries if queries is None else queries
    client = PredictClient(url_of(row.spec) or "", settings)
    box.open(client, min(budget, settings.black_box_queries), remembers=remembers)
    return gnn


def black_box_of(gnn: Gnn) -> BlackBox | None:
    return next((module for module in gnn.modules() if isinstance(module, BlackBox)), None)
