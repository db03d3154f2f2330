"""Converts graphs of Python libraries to the JSON that the API reads.

Objects are recognised by their attributes, so that neither torch nor NetworkX is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from d4explain.errors import D4Error

GraphJson = Mapping[str, Any]  # node-link JSON, a PyG dict or {"smiles": …}
# A PyG Data, a NetworkX graph, a SMILES text or a mapping.
Graph = Any
Graphs = Any  # a Graph, a PyG Batch, or an iterable of graphs

_ACCEPTED = "a PyG Data or Batch, a NetworkX graph, a SMILES text, a dict, or a list of these"
_PYG_FIELDS = ("x", "edge_index", "edge_attr", "y")


class GraphFormatError(D4Error, TypeError):
    """An object is not a graph that the client can send."""


def graph_json(graph: Graph) -> dict[str, Any]:
    """One graph as JSON."""
    graphs = graph_list(graph)
    if len(graphs) != 1:
        raise GraphFormatError(f"expected one graph; got {len(graphs):,}")
    return graphs[0]


def graph_list(graphs: Graphs) -> list[dict[str, Any]]:
    """One or several graphs as JSON."""
    if isinstance(graphs, str):
        return [{"smiles": graphs}]
    if isinstance(graphs, Mapping):
        return [dict(graphs)]
    if any(base.__name__ == "HeteroData" for base in type(graphs).__mro__):
        raise GraphFormatError(
            f"got a {type(graphs).__name__}; graphs have one type of nodes and one type of edges: "
            "convert it with .to_homogeneous()"
        )
    if _is_dataset(graphs):
        graphs = [graphs[index] for index in range(len(graphs))]
    if callable(getattr(graphs, "to_data_list", None)):
        return [_from_pyg(data) for data in graphs.to_data_list()]
    if hasattr(graphs, "edge_index"):
        return [_from_pyg(graphs)]
    if hasattr(graphs, "nodes") and hasattr(graphs, "edges") and hasattr(graphs, "is_directed"):
        return [_from_networkx(graphs)]
    if isinstance(graphs, Iterable) and not isinstance(graphs, bytes):
        return [graph_json(graph) for graph in graphs]
    raise GraphFormatError(f"got {_described(graphs)}; a graph is {_ACCEPTED}")


def pyg_graphs(graphs: Any) -> list[Any]:
    """Those of the graphs that are PyG's, with node features; other formats are left out."""
    if _is_dataset(graphs):
        graphs = [graphs[index] for index in range(len(graphs))]
    if callable(getattr(graphs, "to_data_list", None)):
        graphs = graphs.to_data_list()
    several = [graphs] if hasattr(graphs, "edge_index") or isinstance(graphs, str) else graphs
    return [graph for graph in several if getattr(graph, "x", None) is not None]


def _is_dataset(graphs: Any) -> bool:
    """Whether this is a data set of PyG, which has the `edge_index` of all its graphs together."""
    return any(base.__name__ == "Dataset" for base in type(graphs).__mro__)


def _from_pyg(data: Any) -> dict[str, Any]:
    """The fields that a GNN reads, and its labels; masks and positions are left out."""
    weights = _plain(getattr(data, "edge_weight", None))
    if weights is not None and any(weight not in (1, [1]) for weight in weights):
        raise GraphFormatError(
            "the graph has edge_weight, which the API does not read; GNNs with edge features read "
            "edge_attr: move the weights there, or remove them"
        )
    fields = {name: getattr(data, name, None) for name in _PYG_FIELDS}
    document = {name: _plain(value) for name, value in fields.items() if value is not None}
    if "edge_index" not in document:
        raise GraphFormatError(f"got {_described(data)} without edge_index")
    for name in ("x", "edge_attr"):
        values = document.get(name)
        if values and not isinstance(values[0], list):
            document[name] = [[value] for value in values]  # one feature per row
    if "x" not in document:
        document["num_nodes"] = int(data.num_nodes)
    if isinstance(document.get("y"), list):
        document["y"] = _labels(document["y"])
    return document


def _labels(y: list[Any]) -> list[Any]:
    """Labels as integers: trainings of binary heads have them as 0.0 and 1.0."""
    flat = [item[0] if isinstance(item, list) and len(item) == 1 else item for item in y]
    return [int(item) if isinstance(item, float) and item.is_integer() else item for item in flat]


def _from_networkx(graph: Any) -> dict[str, Any]:
    """Node-link JSON with all attributes, as `networkx.node_link_data` writes it."""
    document: dict[str, Any] = {
        "nodes": [{**_plain(data), "id": _node_id(node)} for node, data in graph.nodes(data=True)],
        "edges": [
            {**_plain(data), "source": _node_id(source), "target": _node_id(target)}
            for source, target, data in graph.edges(data=True)
        ],
        "directed": bool(graph.is_directed()),
        "multigraph": bool(graph.is_multigraph()),
    }
    for node in document["nodes"]:
        if isinstance(node.get("x"), int | float):
            node["x"] = [node["x"]]
    label = _plain(graph.graph.get("label", graph.graph.get("y")))
    return document if label is None else {**document, "label": label}


def _node_id(node: Any) -> int | str:
    plain = _plain(node)
    if isinstance(plain, int | str) and not isinstance(plain, bool):
        return plain
    raise GraphFormatError(
        f"the node {node!r} is {_described(node)}; node ids are integers or texts: "
        "use networkx.convert_node_labels_to_integers"
    )


def _plain(value: Any) -> Any:
    """Tensors and arrays as lists, at any depth."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _described(value: object) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("a builtins.", "a ")
