"""Nodes of a large graph that a counterfactual job explains, each in its neighbourhood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest
from d4explain.contracts.results import CounterfactualAnswer, ExplainedNode
from d4explain.gnn.spec import GnnSpec
from models.graphs.csr_graph import CsrGraph
from models.graphs.large_neighbourhoods import Surroundings, surroundings
from worker.cases.graph_cases import NodeCase, rules_for, rules_within, seed_of


@dataclass(frozen=True)
class LargeNodeCase(NodeCase):
    """A node's neighbourhood in a large graph, of hubs a part of it."""

    around: Surroundings

    def node(self) -> ExplainedNode:
        told = {"complete": self.around.complete, "exact": self.around.exact}
        return super().node().model_copy(update=told)


def large_cases(
    request: CounterfactualRequest, spec: GnnSpec, graph: CsrGraph, sha256: str, max_nodes: int
) -> Iterator[LargeNodeCase]:
    """In the order in which they were asked for; `sha256` is the large graph's."""
    for node in request.nodes or ():
        around = surroundings(graph, node, spec.convolutions, spec.sight, max_nodes=max_nodes)
        part = around.part
        yield LargeNodeCase(
            document=CanonicalGraph(
                node_ids=part.nodes.tolist(),
                x=part.graph.features.tolist(),
                edges=part.graph.edges.T.tolist(),
            ),
            graph=part.graph,
            rules=rules_within(rules_for(request.constraints, 0), part),
            seed=seed_of(request.seed, f"{sha256}:{node}"),
            molecule=None,
            whole=around.seen,
            part=around.within,
            around=around,
        )


def neighbourhood_warnings(answers: Sequence[CounterfactualAnswer]) -> list[str]:
    """What was left out because neighbourhoods are too large."""
    nodes = [answer.node for answer in answers if answer.node is not None]
    cut = [node for node in nodes if not node.complete]
    unsure = [node for node in nodes if not node.exact]
    warnings = []
    if cut:
        warnings.append(
            f"the neighbourhoods of {len(cut)} of {len(nodes)} nodes are too large to be edited as "
            f"a whole: the {max(node.node_count for node in cut):,} nearest nodes were"
        )
    if unsure:
        warnings.append(
            f"what {len(unsure)} of {len(nodes)} nodes depend on is too large even to verify "
            "answers on all of it: their predictions may differ in the whole graph"
        )
    return warnings


def restriction_warnings(answers: Sequence[CounterfactualAnswer]) -> list[str]:
    restricted = sum(answer.restricted is not None for answer in answers)
    if not restricted:
        return []
    return [
        f"{restricted} of {len(answers)} graphs are too large for all their node pairs: edges, "
        "pairs near each other and some far ones were looked at"
    ]
