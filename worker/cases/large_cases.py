"""The cases of a counterfactual job on a large graph: nodes in their neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from d4explain.contracts.counterfactual_results import CounterfactualAnswer, ExplainedNode
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest
from d4explain.gnn.spec import GnnSpec
from models.graphs.csr_graph import CsrGraph
from models.graphs.large_neighbourhoods import Surroundings, surroundings
from worker.cases.graph_cases import NodeCase, mix_seed, rules_for, rules_within


@dataclass(frozen=True)
class LargeNodeCase(NodeCase):
    """The neighbourhood of a node in a large graph; hubs get only a part of theirs."""

    around: Surroundings

    def node(self) -> ExplainedNode:
        update = {"complete": self.around.complete, "exact": self.around.exact}
        return super().node().model_copy(update=update)


def large_cases(
    request: CounterfactualRequest, spec: GnnSpec, graph: CsrGraph, sha256: str, max_nodes: int
) -> Iterator[LargeNodeCase]:
    """Yields cases in the order of the request; `sha256` is the hash of the large graph."""
    for node in request.nodes or ():
        around = surroundings(
            graph, node, spec.convolutions, spec.receptive_field, max_nodes=max_nodes
        )
        part = around.part
        yield LargeNodeCase(
            document=CanonicalGraph(
                node_ids=part.nodes.tolist(),
                x=part.graph.features.tolist(),
                edges=part.graph.edges.T.tolist(),
            ),
            graph=part.graph,
            rules=rules_within(rules_for(request.constraints, 0), part),
            seed=mix_seed(request.seed, f"{sha256}:{node}"),
            molecule=None,
            whole=around.seen,
            part=around.within,
            around=around,
        )


def neighbourhood_warnings(answers: Sequence[CounterfactualAnswer]) -> list[str]:
    """Warns about neighbourhoods that were too large to use as a whole."""
    nodes = [answer.node for answer in answers if answer.node is not None]
    cut = [node for node in nodes if not node.complete]
    inexact = [node for node in nodes if not node.exact]
    warnings = []
    if cut:
        warnings.append(
            f"the neighbourhoods of {len(cut)} of {len(nodes)} nodes are too large to edit as a "
            f"whole: only the {max(node.node_count for node in cut):,} nearest nodes were edited"
        )
    if inexact:
        warnings.append(
            f"{len(inexact)} of {len(nodes)} nodes depend on too many nodes to verify answers "
            "on all of them: predictions may differ in the whole graph"
        )
    return warnings


def restriction_warnings(answers: Sequence[CounterfactualAnswer]) -> list[str]:
    restricted = sum(answer.restricted is not None for answer in answers)
    if not restricted:
        return []
    return [
        f"{restricted} of {len(answers)} graphs are too large to search all node pairs: the search "
        "covered edges, nearby pairs and some distant pairs"
    ]
