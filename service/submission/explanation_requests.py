"""Converts a posted body to a checked job request: ids become positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar

from pydantic_core import PydanticCustomError

from d4explain.contracts.requests import (
    CanonicalGraph,
    ClassRequest,
    Constraints,
    CounterfactualRequest,
    Pair,
    PredictionRequest,
)
from service.graph_io.features.gnn_features import expected_features
from service.graph_io.graph_reader import read_graph, read_graphs
from service.graph_io.schemas import checked_node_id
from service.graph_io.unread_attributes import InputWarnings
from service.http.faults import Faults, kind_of, reject, shown
from service.schemas import ClassIn, ConstraintsIn, CounterfactualIn, PredictionsIn
from service.submission.cost_estimates import check_affordable
from service.submission.explainers import check_class_explainer, check_explainer, searches
from service.submission.judges import resolved_aim, why_no_witnesses
from service.submission.node_requests import (
    NodeNumbers,
    check_names_nodes,
    check_prediction_nodes,
    explained_nodes,
    names_nodes_of_dataset,
    nodes_of_dataset,
    predicted_nodes,
)
from store.catalogue.black_boxes import is_black_box
from store.database.tables import Dataset, Gnn
from store.settings import Settings

Read = TypeVar("Read")


def counterfactual_request(
    body: CounterfactualIn,
    gnn: Gnn,
    settings: Settings,
    dataset: Dataset,
    judges: list[str] | Literal["none"],
) -> CounterfactualRequest:
    """`judges` are ids of GNNs."""
    aim = resolved_aim(body)
    target = None if body.target_class is None else class_number(body.target_class, gnn)
    check_explainer(body, gnn)
    _check_queries(body, gnn, settings)
    check_names_nodes(body, gnn)
    warnings = InputWarnings()
    if names_nodes_of_dataset(body, dataset):
        graphs: list[CanonicalGraph] = []
        nodes: list[int] | None = nodes_of_dataset(body, dataset, settings)
        positions: list[_PositionOf] = [NodeNumbers(dataset.max_nodes)]
        if body.constraints.valid_molecule:
            reject(
                "/constraints/valid_molecule", f"is for molecules; {dataset.id} is one large graph"
            )
    else:
        graphs = posted_graphs(body, gnn, settings, warnings)
        nodes = explained_nodes(body, graphs, settings)
        positions = [{node: i for i, node in enumerate(graph.node_ids)} for graph in graphs]
    for index, graph in enumerate(graphs):
        at = "/graph" if body.graph is not None else f"/graphs/{index}"
        too_large = nodes is None and len(graph.node_ids) > settings.exact_nodes
        if too_large and not searches(body.explainer):
            reject(
                "/explainer",
                f"is '{body.explainer}', which accepts graphs of at most "
                f"{settings.exact_nodes:,} nodes; {at} has {len(graph.node_ids):,}",
            )
        if not graph.edges:
            reject(at, "the graph has no edges; edits are limited to a share of the edges")
    if body.constraints.valid_molecule:
        _check_molecules(body, graphs)
    return CounterfactualRequest(
        graphs=graphs,
        nodes=nodes,
        target_class=target,
        alternatives=body.alternatives,
        aim=aim,
        judges=judges,
        no_witnesses=why_no_witnesses(body, gnn, dataset),
        constraints=_constraints(body.constraints, positions, single=body.graphs is None),
        explainer=body.explainer,
        preset=body.preset,
        time_budget=body.time_budget,
        max_queries=body.max_queries,
        seed=body.seed,
        warnings=warnings.texts,
    )


def _check_queries(body: CounterfactualIn, gnn: Gnn, settings: Settings) -> None:
    if body.max_queries is None:
        return
    if not is_black_box(gnn):
        reject("/max_queries", f"is for GNNs behind a URL; {gnn.id} has weights")
    most = settings.black_box_queries
    if body.max_queries > most:
        reject("/max_queries", f"is {body.max_queries:,}; this deployment allows {most:,}")


def class_request(body: ClassIn, gnn: Gnn) -> ClassRequest:
    if is_black_box(gnn):
        reject(
            "/gnn",
            f"{gnn.id} is behind a URL; class explanations need a GNN with weights, because they "
            "classify the whole dataset",
        )
    check_class_explainer(body, gnn)
    fields = body.model_dump(include=set(ClassRequest.model_fields))
    return ClassRequest.model_validate(
        {**fields, "target_class": class_number(body.target_class, gnn)}
    )


def prediction_request(body: PredictionsIn, gnn: Gnn, settings: Settings) -> PredictionRequest:
    check_prediction_nodes(body, gnn)
    warnings = InputWarnings()
    graphs = posted_graphs(body, gnn, settings, warnings)
    nodes = predicted_nodes(body, gnn, graphs)
    return PredictionRequest(graphs=graphs, nodes=nodes, warnings=warnings.texts)


def class_number(target: int | str, gnn: Gnn, at: str = "/target_class") -> int:
    """The number of a class that is given by its number or name."""
    classes, names = gnn.spec["classes"], gnn.spec.get("class_names") or []
    matching = [number for number in range(classes) if target in (number, *names[number:][:1])]
    if len(matching) != 1:
        problem = ", the name of several classes" if matching else ""
        listed = f" ({', '.join(shown(name) for name in names[:20])})" if names else ", unnamed"
        reject(
            at,
            f"is {shown(target)}{problem}; the classes of {gnn.id} are 0 to {classes - 1}{listed}",
        )
    return matching[0]


def posted_graphs(
    body: CounterfactualIn | PredictionsIn, gnn: Gnn, settings: Settings, warnings: InputWarnings
) -> list[CanonicalGraph]:
    """The graphs of a request that gives one `graph` or many `graphs`."""
    features = expected_features(gnn)
    if isinstance(body, CounterfactualIn):
        for at, raw in _raw_graphs(body):
            check_affordable(raw, at, settings)
    if (body.graph is None) == (body.graphs is None):
        given = "neither" if body.graph is None else "both"
        reject("/graph", f"give either `graph` or `graphs`; got {given}")
    if body.graphs is None:
        return [read_graph(body.graph, "/graph", settings, features, warnings)]
    most = settings.max_graphs_per_request
    if len(body.graphs) > most:
        reject(
            "/graphs",
            f"the request has {len(body.graphs):,} graphs; "
            f"this deployment accepts at most {most:,} at once",
        )
    return read_graphs(body.graphs, "/graphs", settings, features, warnings)


def _raw_graphs(body: CounterfactualIn) -> list[tuple[str, object]]:
    """The posted graphs by their pointers."""
    single: list[tuple[str, object]] = [] if body.graph is None else [("/graph", body.graph)]
    return single + [(f"/graphs/{i}", graph) for i, graph in enumerate(body.graphs or [])]


def _check_molecules(body: CounterfactualIn, graphs: Sequence[CanonicalGraph]) -> None:
    for index, graph in enumerate(graphs):
        if graph.molecule is None:
            which = "the graph" if body.graph is not None else f"graph {index}"
            reject(
                "/constraints/valid_molecule",
                f'is for molecules, which are posted as {{"smiles": …}}; {which} is not one',
            )


_PositionOf = dict[int | str, int] | NodeNumbers  # of a graph's node ids


def _constraints(
    body: ConstraintsIn, positions: Sequence[_PositionOf], *, single: bool
) -> Constraints:
    unchanged = body.model_dump(exclude={"frozen_nodes", "frozen_edges"})
    nodes: Any = body.frozen_nodes
    edges: Any = body.frozen_edges
    return Constraints(
        frozen_nodes=_per_graph(nodes, positions, "/constraints/frozen_nodes", single, _read_node),
        frozen_edges=_per_graph(edges, positions, "/constraints/frozen_edges", single, _read_pair),
        **unchanged,
    )


def _per_graph(
    listed: object,
    positions: Sequence[_PositionOf],
    at: str,
    single: bool,
    read: Callable[[object, _PositionOf, str, Faults], Read | None],
) -> list[list[Read]]:
    """Frozen nodes or pairs of each graph; the body has one flat list for a single graph."""
    if listed == []:
        return []
    faults = Faults()
    lists = [(at, listed)] if single else _list_per_graph(listed, len(positions), at)
    frozen = []
    for position_of, (pointer, entries) in zip(positions, lists, strict=True):
        if not isinstance(entries, list):
            reject(pointer, f"should be an array, is {kind_of(entries)}")
        read_entries = [
            read(entry, position_of, f"{pointer}/{i}", faults) for i, entry in enumerate(entries)
        ]
        frozen.append([entry for entry in read_entries if entry is not None])
    faults.raise_if_any()
    return frozen


def _list_per_graph(listed: object, graphs: int, at: str) -> list[tuple[str, object]]:
    if not isinstance(listed, list):
        reject(at, f"should be an array, is {kind_of(listed)}")
    if len(listed) != graphs:
        reject(at, f"should have one array per graph, {graphs:,}, has {len(listed):,}")
    return [(f"{at}/{i}", entries) for i, entries in enumerate(listed)]


def _read_node(entry: object, position_of: _PositionOf, at: str, faults: Faults) -> int | None:
    try:
        node_id = checked_node_id(entry)
    except PydanticCustomError as error:
        faults.add(at, str(error))
        return None
    if node_id not in position_of:
        known = f"; the ids are {_listed(position_of)}" if isinstance(position_of, dict) else ""
        faults.add(at, f"there is no node with the id {shown(node_id)}{known}")
        return None
    return position_of[node_id]


def _listed(ids: Iterable[int | str]) -> str:
    listed = [shown(one) for one in islice(ids, 9)]
    return ", ".join(listed if len(listed) < 9 else [*listed[:8], "…"])


def _read_pair(entry: object, position_of: _PositionOf, at: str, faults: Faults) -> Pair | None:
    if not isinstance(entry, list) or len(entry) != 2:
        faults.add(at, "should be an array of two node ids")
        return None
    ends = [_read_node(end, position_of, f"{at}/{i}", faults) for i, end in enumerate(entry)]
    source, target = ends
    if source is None or target is None:
        return None
    if source == target:
        faults.add(at, "should name two different nodes")
        return None
    return min(source, target), max(source, target)
