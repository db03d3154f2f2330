"""What a counterfactual job explains, one case after the other: posted graphs, or nodes of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from d4explain.contracts.requests import CanonicalGraph, Constraints, CounterfactualRequest
from d4explain.contracts.results import ExplainedNode
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome, explain
from models.counterfactual.nodes import explain_node, frozen_pairs
from models.diffusion.denoiser import Denoiser
from models.graphs.edits import EditRules
from models.graphs.neighbourhoods import NodeInstance, instance
from store.artifacts.graph_sets import canonical_graph_hash
from worker.cases.editable_molecules import EditableMolecule
from worker.loading.library import graph_of


@dataclass(frozen=True)
class Case:
    """A graph that is edited as a whole."""

    document: CanonicalGraph  # what is edited, in the caller's ids
    graph: Graph
    rules: EditRules
    seed: int
    molecule: EditableMolecule | None  # None if the graph was not posted as one

    def explained(
        self,
        gnn: Gnn,
        denoiser: Denoiser,
        config: CounterfactualConfig,
        device: torch.device,
        should_stop: Callable[[], bool],
    ) -> CounterfactualOutcome:
        return explain(
            gnn,
            denoiser,
            self.graph,
            self.rules,
            config,
            seed=self.seed,
            device=device,
            should_stop=should_stop,
        )

    def node(self) -> ExplainedNode | None:
        return None


@dataclass(frozen=True)
class NodeCase(Case):
    """A node's neighbourhood in the graph that was posted."""

    whole: Graph
    part: NodeInstance

    def explained(
        self,
        gnn: Gnn,
        denoiser: Denoiser,
        config: CounterfactualConfig,
        device: torch.device,
        should_stop: Callable[[], bool],
    ) -> CounterfactualOutcome:
        return explain_node(
            gnn,
            denoiser,
            self.part,
            self.rules,
            config,
            whole=self.whole,
            seed=self.seed,
            device=device,
            should_stop=should_stop,
        )

    def node(self) -> ExplainedNode:
        return ExplainedNode(
            id=self.document.node_ids[0],
            hops=self.part.sight,
            node_count=self.graph.node_count,
            edge_count=self.graph.edge_count,
            frozen_pair_count=frozen_pairs(self.part),
            complete=self.part.exact,
        )


def cases_of(
    request: CounterfactualRequest,
    spec: GnnSpec,
    usual: UsualAttributes | None = None,
    *,
    max_nodes: int | None = None,
) -> Iterator[Case]:
    """In the order in which they were asked for; `usual` is what an added edge carries.

    The part of a graph that is edited for a node has at most so many nodes.
    """
    constraints = request.constraints
    for position, document in enumerate(request.graphs):
        graph = graph_of(document, spec.edge_features, usual)
        rules = rules_for(constraints, position)
        if not spec.classifies_nodes:
            molecule = EditableMolecule.of(document)
            yield Case(
                document=document,
                graph=graph,
                rules=_chemical(rules, constraints, molecule),
                seed=seed_for(request.seed, document),
                molecule=molecule,
            )
            continue
        for node in request.nodes or ():
            part = instance(graph, node, spec.convolutions, sight=spec.sight, max_nodes=max_nodes)
            molecule = EditableMolecule.of(document, part.nodes.tolist())
            yield NodeCase(
                document=part_of(document, part),
                graph=part.graph,
                rules=_chemical(rules_within(rules, part), constraints, molecule),
                seed=seed_for(request.seed, document, node),
                molecule=molecule,
                whole=graph,
                part=part,
            )


def part_of(document: CanonicalGraph, part: NodeInstance) -> CanonicalGraph:
    """The nodes and edges of an instance as they were posted; the node in question comes first."""
    nodes = part.nodes.tolist()
    sources, targets = part.graph.edges.tolist()
    edges = list(zip(sources, targets, strict=True))
    carried = document.edge_attr
    if carried is not None:
        of_pair = dict(zip(document.edges, carried, strict=True))
        ends = [sorted((nodes[source], nodes[target])) for source, target in edges]
        carried = [of_pair[one, other] for one, other in ends]
    return CanonicalGraph(
        node_ids=[document.node_ids[node] for node in nodes],
        x=[document.x[node] for node in nodes],
        edges=edges,
        edge_attr=carried,
    )


def rules_within(rules: EditRules, part: NodeInstance) -> EditRules:
    """Rules about the posted graph, spoken of an instance; what lies outside is out of reach."""
    place = {node: position for position, node in enumerate(part.nodes.tolist())}
    return replace(
        rules,
        frozen_nodes=frozenset(place[node] for node in rules.frozen_nodes if node in place),
        frozen_pairs=frozenset(
            (place[one], place[other])
            for one, other in rules.frozen_pairs
            if one in place and other in place
        ),
    )


def seed_for(seed: int, document: CanonicalGraph, node: int | None = None) -> int:
    """Depends on what is explained and not on its place, so batch mates change nothing."""
    return seed_of(seed, canonical_graph_hash(document) + ("" if node is None else f":{node}"))


def seed_of(seed: int, subject: str) -> int:
    """The request's seed, mixed with what is explained."""
    material = f"{seed}:{subject}".encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") >> 1  # below 2⁶³


def _chemical(
    rules: EditRules, constraints: Constraints, molecule: EditableMolecule | None
) -> EditRules:
    if molecule is None or not constraints.valid_molecule:
        return rules
    return replace(rules, valences=molecule.valences)


def rules_for(constraints: Constraints, position: int) -> EditRules:
    nodes = constraints.frozen_nodes[position] if constraints.frozen_nodes else []
    pairs = constraints.frozen_edges[position] if constraints.frozen_edges else []
    return EditRules(
        max_edits=constraints.max_edits,
        max_ratio=constraints.max_ratio,
        add=constraints.actions in ("both", "add"),
        remove=constraints.actions in ("both", "remove"),
        frozen_nodes=frozenset(nodes),
        frozen_pairs=frozenset(pairs),
        keep_connected=constraints.keep_connected,
    )
