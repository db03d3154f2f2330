"""The legend of node colours."""

from __future__ import annotations

import re
from collections import Counter

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import Edit, Prediction, ResultEdge, ResultGraph, ResultNode
from service.drawing.svg import to_svg
from service.graph_io.chosen_graph import ChosenGraph

ELEMENTS = GnnNames(feature_names=("carbon", "nitrogen", "<oxygen>"))


def chosen(types: list[int], width: int = 3) -> ChosenGraph:
    nodes = [
        ResultNode(id=i, x=[float(kind == column) for column in range(width)])
        for i, kind in enumerate(types)
    ]
    edges = [ResultEdge(source=i, target=i + 1) for i in range(len(types) - 1)]
    prediction = Prediction(predicted_class=0, probabilities=[0.9, 0.1])
    edit = Edit(
        action="add",
        source=0,
        target=1,
        source_type="carbon",
        target_type=None,
        plausibility=None,
        proposed_by="search",
    )
    return ChosenGraph(
        title="a chain",
        subtitle="",
        graph=ResultGraph(nodes=nodes, edges=edges),
        edits=(edit,),
        before=prediction,
        after=prediction,
        is_answer=True,
    )


def legend(svg: str) -> dict[str, int]:
    listed = svg.partition(">Nodes</text>")[2]
    return {name: int(count) for name, count in re.findall(r">([^<>]+) \((\d+)\)</text>", listed)}


def colours(svg: str) -> Counter[str]:
    return Counter(re.findall(r'<circle class="node (k\d)', svg))


def test_the_legend_names_and_counts_every_colour() -> None:
    svg = to_svg(chosen([0, 2, 0, 1, 0]), ELEMENTS)
    assert legend(svg) == {"carbon": 3, "nitrogen": 1, "&lt;oxygen&gt;": 1}
    # Each colour appears once per node and once in the legend.
    assert sorted(colours(svg).values()) == [2, 2, 4]
    assert "<title>node 3: nitrogen</title>" in svg
    assert "add 0–1 (carbon–?)" in svg  # noqa: RUF001


def test_types_without_names_are_numbered() -> None:
    assert legend(to_svg(chosen([0, 2, 0]))) == {"feature 0": 2, "feature 2": 1}


def test_one_type_is_listed_only_if_it_has_a_name() -> None:
    assert legend(to_svg(chosen([1, 1]), ELEMENTS)) == {"nitrogen": 2}
    assert legend(to_svg(chosen([1, 1]))) == {}


def test_many_types_have_one_colour_and_no_legend() -> None:
    svg = to_svg(chosen(list(range(7)), width=7))
    assert legend(svg) == {}
    assert set(colours(svg)) == {"k0"}


def test_the_legend_fits_into_the_picture() -> None:
    svg = to_svg(chosen([0, 1, 2, 3, 4, 5], width=6))
    height = float(re.findall(r'height="(\d+)"', svg)[0])
    lowest = max(float(y) for y in re.findall(r'<text [^>]* y="([\d.]+)"', svg))
    assert lowest < height - 8
