"""Converts a posted body to a job request: ids to positions, defaults set, all checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_core import PydanticCustomError

from d4explain.contracts.requests import (
    CanonicalGraph,
    ClassRequest,
    Constraints,
    CounterfactualRequest,
    Pair,
    PredictionRequest,
)
from service.graph_io.features import expected_features
from service.graph_io.graph_reader import read_graph, read_graphs
from service.graph_io.schemas import checked_node_id
from service.http.faults import Faults, kind_of, reject, shown
from service.schemas import ClassIn, ConstraintsIn, CounterfactualIn, PredictionsIn
from service.submission.cost_estimates import check_affordable
from service.submission.node_requests import (
    NumberedNodes,
    asks_large,
    check_explained,
    check_predicted,
    explained_nodes,
    large_nodes,
    predicted_nodes,
)
from store.catalogue.black_boxes import is_black_box
from store.database.tables import Dataset, Gnn
from store.settings import Settings

Read = TypeVar("Read")


def counterfactual_request(
    asked: CounterfactualIn, gnn: Gnn, settings: Settings, dataset: Dataset | None = None
) -> CounterfactualRequest:
    if asked.target_class is not None:
        check_class(asked.target_class, gnn)
    if asked.explainer == "d4-paper" and asked.preset != "balanced":
        reject(
            "/preset",
            f"is {shown(asked.preset)}; the explainer 'd4-paper' does not search and accepts "
            "'balanced' only",
        )
    _check_queries(asked, gnn, settings)
    check_explained(asked, gnn)
    if dataset is not None and asks_large(asked, dataset):
        graphs: list[CanonicalGraph] = []
        nodes: list[int] | None = large_nodes(asked, dataset, settings)
        places: list[_Position] = [NumberedNodes(dataset.max_nodes)]
        if asked.constraints.valid_molecule:
            reject("/constraints/valid_molecule", f"is for molecules; {dataset.id} is none")
    else:
        graphs = posted_graphs(asked, gnn, settings)
        nodes = explained_nodes(asked, graphs, settings)
        places = [{node: i for i, node in enumerate(graph.node_ids)} for graph in graphs]
    for index, graph in enumerate(graphs):
        at = "/graph" if asked.graph is not None else f"/graphs/{index}"
        too_large = nodes is None and len(graph.node_ids) > settings.exact_nodes
        if too_large and asked.explainer == "d4-paper":
            reject(
                "/explainer",
                f"is 'd4-paper', which adds noise to all node pairs and accepts graphs of at most "
                f"{settings.exact_nodes:,} nodes; {at} has {len(graph.node_ids):,}",
            )
        if not graph.edges:
            reject(at, "the graph has no edges; edits are limited to a share of the edges")
    if asked.constraints.valid_molecule:
        _check_molecules(asked, graphs)
    return CounterfactualRequest(
        graphs=graphs,
        nodes=nodes,
        target_class=asked.target_class,
        alternatives=asked.alternatives,
        constraints=_constraints(asked.constraints, places, single=asked.graphs is None),
        explainer=asked.explainer,
        preset=asked.preset,
        time_budget=asked.time_budget,
        max_queries=asked.max_queries,
        seed=asked.seed,
    )


def _check_queries(asked: CounterfactualIn, gnn: Gnn, settings: Settings) -> None:
    if asked.max_queries is None:
        return
    if not is_black_box(gnn):
        reject("/max_queries", f"is for GNNs behind a URL; {gnn.id} has weights")
    most = settings.black_box_queries
    if asked.max_queries > most:
        reject("/max_queries", f"is {asked.max_queries:,}; this deployment allows {most:,}")


def class_request(asked: ClassIn, gnn: Gnn) -> ClassRequest:
    if is_black_box(gnn):
        reject(
            "/gnn",
            f"{gnn.id} is behind a URL; class explanations need a GNN with weights, since they "
            "classify the whole dataset",
        )
    check_class(asked.target_class, gnn)
    settled = asked.model_dump(exclude={"gnn", "dataset", "denoiser"})
    return ClassRequest.model_validate(settled)


def prediction_request(asked: PredictionsIn, gnn: Gnn, settings: Settings) -> PredictionRequest:
    check_predicted(asked, gnn)
    graphs = posted_graphs(asked, gnn, settings)
    return PredictionRequest(graphs=graphs, nodes=predicted_nodes(asked, gnn, graphs))


def check_class(target: int, gnn: Gnn) -> None:
    classes = gnn.spec["classes"]
    if target >= classes:
        names = gnn.spec.get("class_names")
        said = f" ({', '.join(shown(name) for name in names[:20])})" if names else ""
        reject(
            "/target_class",
            f"is {target}; the classes of {gnn.id} are 0 to {classes - 1}{said}",
        )


def posted_graphs(
    asked: CounterfactualIn | PredictionsIn, gnn: Gnn, settings: Settings
) -> list[CanonicalGraph]:
    """The graphs of a request that gives one `graph` or many `graphs`."""
    features = expected_features(gnn)
    if isinstance(asked, CounterfactualIn):
        for at, raw in _raw_graphs(asked):
            check_affordable(raw, at, settings)
    if (asked.graph is None) == (asked.graphs is None):
        reject("/graph", "give either `graph` or `graphs`")
    if asked.graphs is None:
        return [read_graph(asked.graph, "/graph", settings, features)]
    most = settings.max_graphs_per_request
    if len(asked.graphs) > most:
        reject(
            "/graphs",
            f"the request has {len(asked.graphs):,} graphs; "
            f"this deployment accepts at most {most:,} at once",
        )
    return read_graphs(asked.graphs, "/graphs", settings, features)


def _raw_graphs(asked: CounterfactualIn) -> list[tuple[str, object]]:
    one: list[tuple[str, object]] = [] if asked.graph is None else [("/graph", asked.graph)]
    return one + [(f"/graphs/{i}", graph) for i, graph in enumerate(asked.graphs or [])]


def _check_molecules(asked: CounterfactualIn, graphs: Sequence[CanonicalGraph]) -> None:
    for index, graph in enumerate(graphs):
        if graph.molecule is None:
            which = "the graph" if asked.graph is not None else f"graph {index}"
            reject(
                "/constraints/valid_molecule",
                f'is for molecules, which are posted as {{"smiles": …}}; {which} is not one',
            )


def _constraints(asked: ConstraintsIn, places: Sequence[_Position], *, single: bool) -> Constraints:
    settled = asked.model_dump(exclude={"frozen_nodes", "frozen_edges"})
    nodes: Any = asked.frozen_nodes
    edges: Any = asked.frozen_edges
    return Constraints(
        frozen_nodes=_per_graph(nodes, places, "/constraints/frozen_nodes", single, _node),
        frozen_edges=_per_graph(edges, places, "/constraints/frozen_edges", single, _pair),
        **settled,
    )


_Position = dict[int | str, int] | NumberedNodes


def _per_graph(
    listed: object,
    places: Sequence[_Position],
    at: str,
    single: bool,
    read: Callable[[object, _Position, str, Faults], Read | None],
) -> list[list[Read]]:
    """Frozen things by position: one list for a single graph, one per graph for many."""
    if listed == []:
        return []
    faults = Faults()
    lists = [(at, listed)] if single else _one_each(listed, len(places), at)
    found = []
    for position, (place, entries) in zip(places, lists, strict=True):
        if not isinstance(entries, list):
            reject(place, f"should be an array, is {kind_of(entries)}")
        read_entries = [
            read(entry, position, f"{place}/{i}", faults) for i, entry in enumerate(entries)
        ]
        found.append([entry for entry in read_entries if entry is not None])
    faults.raise_if_any()
    return found


def _one_each(listed: object, graphs: int, at: str) -> list[tuple[str, object]]:
    if not isinstance(listed, list):
        reject(at, f"should be an array, is {kind_of(listed)}")
    if len(listed) != graphs:
        reject(at, f"should have one array per graph, {graphs:,}, has {len(listed):,}")
    return [(f"{at}/{i}", entries) for i, entries in enumerate(listed)]


def _node(entry: object, position: _Position, at: str, faults: Faults) -> int | None:
    try:
        node_id = checked_node_id(entry)
    except PydanticCustomError as error:
        faults.add(at, str(error))
        return None
    if node_id not in position:
        faults.add(at, f"there is no node with the id {shown(node_id)}")
        return None
    return position[node_id]


def _pair(entry: object, position: _Position, at: str, faults: Faults) -> Pair | None:
    if not isinstance(entry, list) or len(entry) != 2:
        faults.add(at, "should be an array of two node ids")
        return None
    ends = [_node(end, position, f"{at}/{i}", faults) for i, end in enumerate(entry)]
    source, target = ends
    if source is None or target is None:
        return None
    if source == target:
        faults.add(at, "should name two different nodes")
        return None
    return min(source, target), max(source, target)
