"""Writes one graph of a result as Grafana's node graph panel reads it.

Fields: https://grafana.com/docs/grafana/latest/panels-visualizations/visualizations/node-graph/
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import ResultNode
from service.graph_io.chosen_graph import ChosenGraph


class GrafanaNodeGraph(BaseModel):
    """Data frames of a node graph panel; the Infinity data source reads both lists."""

    model_config = ConfigDict(extra="forbid")

    nodes: list[dict[str, Any]] = Field(
        description="`id`, `title`, `subTitle`, `mainStat`, `color` and `detail__…` of each node."
    )
    edges: list[dict[str, Any]] = Field(
        description="`id`, `source`, `target`, `mainStat`, `color`, `strokeDasharray` and "
        "`thickness` of each edge, with those that were removed."
    )


_ADDED, _REMOVED, _KEPT = "#1a7f37", "#cf222e", "#8d97a3"
_NODE, _TOUCHED = "#6ea8dc", "#e8b04b"


def to_grafana(chosen: ChosenGraph, names: GnnNames) -> GrafanaNodeGraph:
    touched = {end for edit in chosen.edits for end in (edit.source, edit.target)}
    added = {frozenset((e.source, e.target)) for e in chosen.edits if e.action == "add"}
    edges = [
        _edge(edge.source, edge.target, frozenset((edge.source, edge.target)) in added)
        for edge in chosen.graph.edges
    ]
    removed = [
        {
            "id": f"removed {edit.source}-{edit.target}",
            "source": str(edit.source),
            "target": str(edit.target),
            "mainStat": "removed",
            "color": _REMOVED,
            "strokeDasharray": "6 5",
            "thickness": 2,
        }
        for edit in chosen.edits
        if edit.action == "remove"
    ]
    return GrafanaNodeGraph(
        nodes=[_node(chosen, node, names, node.id in touched) for node in chosen.graph.nodes],
        edges=edges + removed,
    )


def _node(
    chosen: ChosenGraph, node: ResultNode, names: GnnNames, is_touched: bool
) -> dict[str, Any]:
    subtitle = names.type_name(node.x) or ""
    explained = node.id == chosen.node
    return {
        "id": str(node.id),
        "title": str(node.id),
        "subTitle": f"{subtitle} (explained)".strip() if explained else subtitle,
        "mainStat": "edited" if is_touched else "",
        "color": _TOUCHED if is_touched else _NODE,
        "detail__features": str(node.x),
    }


def _edge(source: int | str, target: int | str, is_added: bool) -> dict[str, Any]:
    return {
        "id": f"{source}-{target}",
        "source": str(source),
        "target": str(target),
        "mainStat": "added" if is_added else "",
        "color": _ADDED if is_added else _KEPT,
        "strokeDasharray": "",
        "thickness": 4 if is_added else 1,
    }
