"""How the layers of a GNN are connected: what each layer reads and what its rows stand for.

Values are numbered: 0 is the node features, n is the output of layer n - 1 and -1 is the edge
attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

FEATURES = 0
EDGE_ATTRIBUTES = -1

Inputs = tuple[int, ...]  # the values that one layer reads
Rows = Literal["node", "graph", "edge", "constant"]  # what a row of a value stands for
# What a layer does with rows: "nodes" needs node values and returns node values, "rows" maps every
# row separately, "join" combines values row by row.
Role = Literal[
    "nodes", "rows", "join", "pool", "broadcast", "constant", "keep", "add", "jump", "first_kept"
]
CHAIN_ROLES: tuple[Role, ...] = ("keep", "add", "jump", "first_kept")  # their inputs are implied


class LayerNode(NamedTuple):
    role: Role
    inputs: Inputs | None = None  # None means the output of the layer before
    reads_edges: bool = False  # whether the layer also reads the edge attributes by default
    last: int | None = None  # kept values that a jump joins; None means all
    takes_weights: bool = False  # whether a second input may weigh the edges


class GraphProblem(NamedTuple):
    position: int  # of the layer
    detail: str


def resolve_inputs(layers: Sequence[LayerNode]) -> tuple[Inputs, ...]:
    """The values that each layer reads; a layer without `inputs` reads the one before it.

    `keep` stores a value. `add` also reads the last stored one, the energetic GNN the first one,
    and `jump` reads the stored ones only.
    """
    kept: list[int] = []
    resolved: list[Inputs] = []
    for previous, layer in enumerate(layers):
        match layer.role:
            case "add":
                inputs = (previous, *kept[-1:])
            case "first_kept":
                inputs = (previous, *kept[:1])
            case "jump":
                inputs = tuple(kept if layer.last is None else kept[-layer.last :])
            case "constant":
                inputs = ()
            case _ if layer.inputs is not None:
                inputs = layer.inputs
            case _:
                inputs = (previous, EDGE_ATTRIBUTES) if layer.reads_edges else (previous,)
        if layer.role == "keep":
            kept.append(previous)
        resolved.append(inputs)
    return tuple(resolved)


def rows_of_values(layers: Sequence[LayerNode], inputs: Sequence[Inputs]) -> dict[int, Rows]:
    """What the rows of each value stand for; layers with problems count as if they had none."""
    rows: dict[int, Rows] = {FEATURES: "node", EDGE_ATTRIBUTES: "edge"}
    for position, (layer, read) in enumerate(zip(layers, inputs, strict=True)):
        rows[position + 1] = rows_after(layer.role, [rows.get(value, "node") for value in read])
    return rows


def rows_after(role: Role, read: Sequence[Rows]) -> Rows:
    """What the rows of a layer's output stand for, given those of its inputs."""
    varying = [rows for rows in read if rows != "constant"]
    result: Rows
    match role:
        case "pool":
            result = "graph"
        case "constant":
            result = "constant"
        case "rows" | "join":
            result = varying[0] if varying else "constant"
        case _:
            result = "node"
    return result


def graph_problems(layers: Sequence[LayerNode], inputs: Sequence[Inputs]) -> Iterator[GraphProblem]:
    """Layers that read a value that does not exist yet, or rows that they cannot read."""
    rows = rows_of_values(layers, inputs)
    for position, (layer, read) in enumerate(zip(layers, inputs, strict=True)):
        unknown = [value for value in read if not EDGE_ATTRIBUTES <= value <= position]
        if unknown:
            detail = f"reads the value {unknown[0]}, which does not exist before it"
            yield GraphProblem(position, detail)
            continue
        # Chain layers take the place of the layer before them, whatever else they read.
        first = (position,) if layer.role in CHAIN_ROLES else read[:1]
        kinds = [rows[value] for value in (*first, *read[1:])]
        problem = _count_problem(layer, read) or _rows_problem(layer, kinds)
        if problem is not None:
            yield GraphProblem(position, problem)


def _count_problem(layer: LayerNode, read: Inputs) -> str | None:
    """Too many or too few inputs."""
    if layer.inputs is not None and (layer.role in CHAIN_ROLES or layer.role == "constant"):
        return "takes no inputs"
    if layer.role in (*CHAIN_ROLES, "constant"):
        return None
    if layer.role == "join":
        return None if read else "needs at least one input"
    reads_more = layer.reads_edges or layer.takes_weights
    fewest = 2 if layer.reads_edges else 1
    most = 2 if reads_more else 1
    if fewest <= len(read) <= most:
        return None
    allowed = str(most) if fewest == most else f"{fewest} or {most}"
    return f"takes {allowed} input{'s' if most > 1 else ''}; got {len(read)}"


def _rows_problem(layer: LayerNode, kinds: Sequence[Rows]) -> str | None:
    problem = None
    match layer.role:
        case "rows" | "constant":
            pass
        case "join":
            varying = sorted({kind for kind in kinds if kind != "constant"})
            if len(varying) > 1:
                problem = f"joins rows of different kinds: {' and '.join(varying)}"
        case "broadcast":
            if kinds[0] != "graph":
                problem = f"needs graph values, not {kinds[0]} values"
        case _ if kinds[0] == "graph":
            problem = "needs nodes, but comes after the pool; it must come before it"
        case _ if kinds[0] != "node":
            problem = f"needs nodes, not {kinds[0]} values"
        case "nodes" if any(kind != "edge" for kind in kinds[1:]):
            problem = f"needs edge values as its second input, not {kinds[1]} values"
        case _:
            pass
    return problem
