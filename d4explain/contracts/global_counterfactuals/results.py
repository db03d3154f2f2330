"""Results of global counterfactuals: k graphs of another class near to many graphs of a class.

Nodes of reference graphs are numbered by their positions in the stored graph, and the nodes of a
counterfactual from 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.results import (
    Document,
    GeneratedMolecule,
    Prediction,
    ResultGraph,
    TypeName,
)

MAX_PATHS = 5_000  # in one result
Share = Annotated[float, Field(ge=0, le=1)]
NodePair = tuple[int, int]


class NodeTypeRow(Document):
    """A type of nodes, as edits change it."""

    type: Annotated[int, Field(description="Number of the type.")]
    name: TypeName = None
    x: Annotated[
        list[float],
        Field(description="The features that nodes of the type have in counterfactuals."),
    ]


class TypeChange(Document):
    """A node that gets another type."""

    node: int
    before: Annotated[int, Field(description="Number of the old type.")]
    after: Annotated[int, Field(description="Number of the new type.")]


class AddedNode(Document):
    """A node that is added."""

    node: Annotated[int, Field(description="Its number, after those of the reference graph.")]
    type: Annotated[int, Field(description="Number of its type.")]


class EditPath(Document):
    """Edits of a reference graph that give the counterfactual; each costs 1."""

    added_nodes: list[AddedNode]
    removed_nodes: Annotated[
        list[int], Field(description="Nodes that are removed, after all their edges.")
    ]
    changed_types: list[TypeChange]
    added_edges: Annotated[list[NodePair], Field(description="Pairs of nodes that get an edge.")]
    removed_edges: Annotated[list[NodePair], Field(description="Pairs of nodes that lose theirs.")]
    nodes: Annotated[
        list[int],
        Field(
            description="For each node of the counterfactual, the node of the reference graph, or "
            "the added node, that becomes it."
        ),
    ]


class CoveredGraph(Document):
    """A reference graph within theta of a counterfactual."""

    graph: Annotated[int, Field(description="Its position in the reference set, from 0.")]
    cost: Annotated[int, Field(description="Number of edits of the shortest path that was found.")]
    distance: Annotated[
        float,
        Field(description="`cost` divided by the nodes and edges of both graphs; at most theta."),
    ]
    nearest: Annotated[
        bool,
        Field(
            description="Whether this is its nearest counterfactual: of several at the same "
            "distance, the first."
        ),
    ]
    path: Annotated[
        EditPath | None,
        Field(
            description="The edits. Null if another counterfactual is nearer, whose entry for this "
            "graph has its path; null, too, beyond 5,000 paths in one result."
        ),
    ]


class GlobalCounterfactual(Document):
    """A graph to which the GNN gives the wanted class."""

    graph: ResultGraph
    node_types: Annotated[list[int], Field(description="Number of the type of each node.")]
    prediction: Prediction
    covered_share: Annotated[
        Share, Field(description="Share of the graphs of the source class within theta of it.")
    ]
    added_share: Annotated[
        Share,
        Field(
            description="Share of the graphs of the source class within theta of it and of none "
            "before it. These shares add up to `coverage`."
        ),
    ]
    covered: Annotated[
        list[CoveredGraph], Field(description="The graphs within theta of it, nearest first.")
    ]
    molecule: GeneratedMolecule | None = None  # None if the GNN has no featuriser for SMILES


class CoverageCurve(Document):
    """Coverage and cost at one theta, by the number of counterfactuals."""

    theta: Annotated[float, Field(description="Largest distance that counts as covered.")]
    coverage: Annotated[
        list[float],
        Field(
            description="Share of the graphs of the source class within theta of one of the first "
            "1, 2, … counterfactuals. They were chosen for the requested theta."
        ),
    ]
    mean_cost: Annotated[
        list[float | None],
        Field(
            description="Mean edits from these graphs to the nearest of the first 1, 2, … "
            "counterfactuals; null if none is covered."
        ),
    ]


class GlobalEditRule(Document):
    """An edit that recurs on the paths to the counterfactuals."""

    kind: Annotated[
        Literal["retype", "add_edge", "remove_edge", "add_node", "remove_node"],
        Field(description="What is edited; `retype` gives a node another type."),
    ]
    types: Annotated[
        list[int],
        Field(description="The old and the new type, both ends of an edge, or the type of a node."),
    ]
    path_count: Annotated[
        int, Field(description="Covered graphs whose path contains the edit at least once.")
    ]
    share: Annotated[Share, Field(description="`path_count` as a share of the covered graphs.")]


class GlobalTimings(Document):
    """Seconds of the parts of the job."""

    load_seconds: float
    explain_seconds: float


class GlobalResult(Document):
    """Graphs of another class, and which graphs of the source class are near to them.

    Coverage is of the reference graphs that the GNN gives the source class; the counterfactuals
    were searched for on the same graphs, so it says nothing of graphs outside the set.
    """

    kind: Literal["global"] = "global"
    stage: Stage = Stage.FINAL
    source_class: int
    target_class: int | None
    theta: float
    reference_count: Annotated[int, Field(description="Graphs of the reference set.")]
    source_count: Annotated[
        int,
        Field(
            description="Of them, graphs that the GNN gives the source class, whatever their "
            "label; what coverage is a share of."
        ),
    ]
    too_large_count: Annotated[
        int,
        Field(
            description="Of those, graphs with more than 100 nodes; they take no part and count as "
            "not covered."
        ),
    ]
    covered_count: Annotated[
        int, Field(description="Of `source_count`, graphs within theta of a counterfactual.")
    ]
    coverage: Annotated[
        float | None,
        Field(
            description="`covered_count` divided by `source_count`; null without graphs of the "
            "class. A path may be longer than the shortest, so the true coverage of these "
            "counterfactuals is at least this."
        ),
    ]
    mean_cost: Annotated[
        float | None,
        Field(
            description="Mean edits from the covered graphs to their nearest counterfactual; null "
            "if none is covered."
        ),
    ]
    counterfactuals: Annotated[
        list[GlobalCounterfactual],
        Field(description="In the order in which they were chosen, each for the rest."),
    ]
    curves: Annotated[
        list[CoverageCurve], Field(description="Coverage and cost for several theta, ascending.")
    ]
    median_distance: Annotated[
        list[float | None],
        Field(
            description="Median distance of the graphs of the source class to the nearest of the "
            "first 1, 2, … counterfactuals; null above 0.2."
        ),
    ]
    rules: Annotated[
        list[GlobalEditRule],
        Field(
            description="Edits that recur on the paths of the covered graphs, most frequent first; "
            "an observation about the paths, not a part of the coverage."
        ),
    ]
    node_types: list[NodeTypeRow]
    ignores_features: Annotated[
        bool,
        Field(
            description="Whether nodes have features besides their type. Paths do not change those,"
            " so an edited graph may differ from the counterfactual in them."
        ),
    ]
    ignores_edge_attributes: Annotated[bool, Field(description="The same for attributes of edges.")]
    reason: Annotated[
        str | None, Field(description="Why there is no counterfactual; null if there is one.")
    ]
    timings: GlobalTimings
    receipt: Receipt
    warnings: list[str]
