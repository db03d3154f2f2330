"""The cases of a counterfactual job: posted graphs, or nodes of a posted graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from d4explain.contracts.counterfactual_results import ExplainedNode
from d4explain.contracts.requests import CanonicalGraph, Constraints, CounterfactualRequest
from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome
from models.counterfactual.explain import explain as explain_graph
from models.counterfactual.nodes import explain_node, frozen_pairs
from models.counterfactual.panel import Panel
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.explainers.interface import Explainer
from models.graphs.edits import EditRules
from models.graphs.neighbourhoods import NodeInstance, instance
from store.artifacts.graph_sets import canonical_graph_hash
from worker.cases.editable_molecules import EditableMolecule
from worker.loading.graph_conversion import graph_of


@dataclass(frozen=True)
class Case:
    """One graph, edited as a whole."""

    document: CanonicalGraph  # the edited graph, with the caller's ids
    graph: Graph
    rules: EditRules
    seed: int
    molecule: EditableMolecule | None  # None if the graph was not posted as a molecule

    def explain(
        self,
        gnn: Gnn,
        denoiser: EdgeDenoiser | None,
        config: CounterfactualConfig,
        *,
        device: torch.device,
        panel: Panel | None = None,
        explainer: Explainer | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CounterfactualOutcome:
        return explain_graph(
            gnn,
            denoiser,
            self.graph,
            self.rules,
            config,
            seed=self.seed,
            device=device,
            panel=panel,
            explainer=explainer,
            should_stop=should_stop,
        )

    def node(self) -> ExplainedNode | None:
        return None


@dataclass(frozen=True)
class NodeCase(Case):
    """The neighbourhood of one node in a posted graph."""

    whole: Graph
    part: NodeInstance

    def explain(
        self,
        gnn: Gnn,
        denoiser: EdgeDenoiser | None,
        config: CounterfactualConfig,
        *,
        device: torch.device,
        panel: Panel | None = None,
        explainer: Explainer | None = None,
        should_stop: Callable[[], bool] = lambda: False,
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
            panel=panel,
            explainer=explainer,
            should_stop=should_stop,
        )

    def node(self) -> ExplainedNode:
        return ExplainedNode(
            id=self.document.node_ids[0],
            hops=self.part.receptive_field,
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
    """Yields cases in the order of the request.

    `usual` are the attributes of an added edge; a neighbourhood has at most `max_nodes` nodes.
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
                rules=_with_valences(rules, request, molecule),
                seed=seed_for(request.seed, document),
                molecule=molecule,
            )
            continue
        for node in request.nodes or ():
            part = instance(
                graph,
                node,
                spec.convolutions,
                receptive_field=spec.receptive_field,
                max_nodes=max_nodes,
            )
            molecule = EditableMolecule.of(document, part.nodes.tolist())
            yield NodeCase(
                document=part_of(document, part),
                graph=part.graph,
                rules=_with_valences(rules_within(rules, part), request, molecule),
                seed=seed_for(request.seed, document, node),
                molecule=molecule,
                whole=graph,
                part=part,
            )


def part_of(document: CanonicalGraph, part: NodeInstance) -> CanonicalGraph:
    """The posted nodes and edges of a neighbourhood; the explained node comes first."""
    nodes = part.nodes.tolist()
    sources, targets = part.graph.edges.tolist()
    edges = list(zip(sources, targets, strict=True))
    attributes = document.edge_attr
    if attributes is not None:
        row_of = dict(zip(document.edges, attributes, strict=True))
        ends = [sorted((nodes[source], nodes[target])) for source, target in edges]
        attributes = [row_of[one, other] for one, other in ends]
    return CanonicalGraph(
        node_ids=[document.node_ids[node] for node in nodes],
        x=[document.x[node] for node in nodes],
        edges=edges,
        edge_attr=attributes,
    )


def rules_within(rules: EditRules, part: NodeInstance) -> EditRules:
    """Translates rules about the posted graph to the node positions of a neighbourhood."""
    position_of = {node: position for position, node in enumerate(part.nodes.tolist())}
    return replace(
        rules,
        frozen_nodes=frozenset(
            position_of[node] for node in rules.frozen_nodes if node in position_of
        ),
        frozen_pairs=frozenset(
            (position_of[one], position_of[other])
            for one, other in rules.frozen_pairs
            if one in position_of and other in position_of
        ),
    )


def seed_for(seed: int, document: CanonicalGraph, node: int | None = None) -> int:
    """Depends only on the explained graph, so the other graphs of a request change nothing."""
    return mix_seed(seed, canonical_graph_hash(document) + ("" if node is None else f":{node}"))


def mix_seed(seed: int, subject: str) -> int:
    """Mixes the request's seed with the explained subject."""
    material = f"{seed}:{subject}".encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") >> 1  # below 2⁶³


def _with_valences(
    rules: EditRules, request: CounterfactualRequest, molecule: EditableMolecule | None
) -> EditRules:
    """Believable molecules keep their valences, unless the request accepts what is unseen."""
    constraints = request.constraints
    is_believable = request.aim != "minimal" and constraints.only_seen
    if molecule is None or not (constraints.valid_molecule or is_believable):
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
