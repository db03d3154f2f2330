"""What the GNN answers for an explained graph with other edges."""

from __future__ import annotations

import torch

from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.worker_calls import WhatIf, WhatIfCall
from d4explain.gnn.network import predict
from store.settings import Settings
from worker.calls.explained_graphs import Answers, CallError, ExplainedGraph
from worker.calls.inputs import Inputs
from worker.loading.library import Library
from worker.loading.open_gnn import open_gnn
from worker.reporting.documents import prediction


def what_if(
    call: WhatIfCall, inputs: Inputs, library: Library, answers: Answers, settings: Settings
) -> WhatIf:
    """Toggles edges of the explained graph; an added edge gets the usual attributes."""
    gnn, dataset = inputs
    usual = library.usual_attributes(gnn, dataset)
    explained = answers.explained(call.tenant, call.answer_sha256, call.graph, "/graph", usual)
    edges = _toggled(explained, call)
    graph = explained.graph.with_edges(edges)
    network = open_gnn(library, settings, gnn, max_queries=1)
    [probabilities] = predict(network, [graph], library.device)
    return WhatIf(prediction=prediction(probabilities, gnn_names(gnn.spec)), edges=edges.shape[1])


def _toggled(explained: ExplainedGraph, call: WhatIfCall) -> torch.Tensor:
    present = {(source, target) for source, target in explained.graph.edges.T.tolist()}
    for number, ends in enumerate(call.toggles):
        one, other = (
            explained.position(node, f"/toggles/{number}/{end}") for end, node in enumerate(ends)
        )
        if one == other:
            raise CallError(
                f"/toggles/{number}", f"joins node {ends[0]!r} to itself; graphs have no loops"
            )
        present ^= {(min(one, other), max(one, other))}
    return torch.tensor(sorted(present), dtype=torch.int64).reshape(-1, 2).T.contiguous()
