"""Opens the GNN of a job: loads its weights, or connects to a black box with a query budget."""

from __future__ import annotations

from d4explain.gnn.network import Gnn
from store.catalogue.black_boxes import is_black_box, url_of
from store.database.tables import Gnn as GnnRow
from store.settings import Settings
from worker.loading.black_box import BlackBox
from worker.loading.library import Library
from worker.loading.predict_client import PredictClient
from worker.loading.spec_conversion import spec_of


def open_gnn(
    library: Library,
    settings: Settings,
    row: GnnRow,
    *,
    max_queries: int | None = None,
    caches_answers: bool = True,
) -> Gnn:
    """A black box is opened for one job: its answers are not cached between jobs."""
    if not is_black_box(row):
        return library.gnn(row)
    gnn = Gnn(spec_of(row)).to(library.device).eval()
    box = black_box_of(gnn)
    assert box is not None
    budget = settings.black_box_queries if max_queries is None else max_queries
    client = PredictClient(url_of(row.spec) or "", settings)
    box.open(client, min(budget, settings.black_box_queries), caches_answers=caches_answers)
    return gnn


def black_box_of(gnn: Gnn) -> BlackBox | None:
    return next((module for module in gnn.modules() if isinstance(module, BlackBox)), None)
