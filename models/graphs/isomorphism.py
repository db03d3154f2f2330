"""Graph isomorphism: codes by colour refinement in batches, and an exact test.

Isomorphic graphs have equal codes (Weisfeiler and Leman; sums of hashed neighbour colours stand for
multisets). The converse is false: a 6-cycle and two triangles have equal codes. Where that matters,
codes select the graphs that need the exact test.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import numpy.typing as npt
import torch
from networkx.algorithms.isomorphism import GraphMatcher
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from models.graphs.base_edit_space import EditSet
from models.graphs.hashing import hashed as _hashed

if TYPE_CHECKING:
    from models.graphs.edits import EditSpace

_ROUNDS = 16  # enough for colours to spread through graphs of usual diameter
_CELLS_PER_PASS = 2**20
_LOW_BITS = np.uint64(2**24 - 1)

Words = npt.NDArray[np.uint64]


def marked_codes(space: EditSpace, edit_sets: Sequence[EditSet]) -> list[int]:
    """One code per edit set, of the input with its kept, removed and added edges marked.

    There is no exact test: marked edges distinguish the nodes around them, and the exact test takes
    unbounded time on hundreds of nodes.
    """
    codes: list[int] = []
    rounds = min(_ROUNDS, max(space.graph.node_count, 1))
    per_pass = max(1, _CELLS_PER_PASS // max(space.graph.node_count, 1) ** 2)
    features = torch.unique(space.graph.features, dim=0, return_inverse=True)[1]
    if space.graph.target is not None:
        features[space.graph.target] = space.graph.node_count  # a colour that no other node has
    weights = _attribute_weights(space.pair_attributes)
    for start in range(0, len(edit_sets), per_pass):
        after = space.adjacency(edit_sets[start : start + per_pass]).numpy() > 0.5
        before = np.broadcast_to(space.base.numpy() > 0.5, after.shape)
        colours = np.broadcast_to(features.numpy().astype(np.uint64), after.shape[:2])
        relations = [before & after, before & ~after, ~before & after]
        refined = _refined(colours, [weights * relation for relation in relations], rounds=rounds)
        codes += refined.sum(axis=1).tolist()
    return codes


def graph_codes(graphs: DenseGraphs, *, features: bool = True) -> list[int]:
    """One code per graph of a padded batch, independent of the batch; with or without features."""
    codes: list[int] = _refined_colours(graphs, features=features).sum(axis=1).tolist()
    return codes


def isomorphism_classes(graphs: DenseGraphs) -> list[int]:
    """For each graph the position of the first isomorphic graph, possibly its own.

    Node features, edge attributes and marked nodes count.
    """
    colours = _refined_colours(graphs, features=True)
    kinds = torch.unique(graphs.features.flatten(0, 1), dim=0, return_inverse=True)[1]
    kinds = kinds.view_as(graphs.mask)
    with_code: dict[int, list[int]] = {}
    for position, code in enumerate(colours.sum(axis=1).tolist()):
        with_code.setdefault(code, []).append(position)
    classes = list(range(graphs.count))
    for positions in with_code.values():
        if len(positions) == 1:
            continue
        firsts: list[tuple[int, nx.Graph]] = []
        for position in positions:
            network = _network(graphs, position, kinds[position], colours[position])
            same = next((first for first, known in firsts if _isomorphic(known, network)), None)
            if same is None:
                firsts.append((position, network))
            else:
                classes[position] = same
    return classes


def _network(graphs: DenseGraphs, position: int, kinds: Tensor, colours: Words) -> nx.Graph:
    """One graph of a batch; the `label` of nodes and edges is what has to match."""
    size = int(graphs.mask[position].sum())
    marked = None if graphs.targets is None else int(graphs.targets[position])
    # The matcher needs no refined colours in the labels, but they make it faster.
    labels = zip(kinds[:size].tolist(), colours[:size].tolist(), strict=True)
    network = nx.Graph()
    network.add_nodes_from(
        (node, {"label": (*label, node == marked)}) for node, label in enumerate(labels)
    )
    adjacency = graphs.adjacency[position, :size, :size] > 0.5
    source, target = torch.triu(adjacency, diagonal=1).nonzero(as_tuple=True)
    attributes = graphs.edge_attributes
    rows: list[list[float]] = [[]] * len(source)
    if attributes is not None:
        rows = attributes[position, source, target].tolist()
    network.add_edges_from(
        (one, other, {"label": row})
        for one, other, row in zip(source.tolist(), target.tolist(), rows, strict=True)
    )
    return network


def _isomorphic(one: nx.Graph, other: nx.Graph) -> bool:
    matcher = GraphMatcher(one, other, node_match=operator.eq, edge_match=operator.eq)
    found: bool = matcher.is_isomorphic()
    return found


def _refined_colours(graphs: DenseGraphs, *, features: bool) -> Words:
    """A colour per [graph, node] that describes the node's place in its graph; 0 on padding."""
    keys = row_keys(graphs.features)
    colours = (keys if features else torch.zeros_like(keys)).numpy().view(np.uint64)
    if graphs.targets is not None:
        marked = np.zeros_like(colours)
        marked[np.arange(graphs.count), graphs.targets.numpy()] = 1
        colours = _hashed(colours) + marked
    real = graphs.mask.numpy()
    edges = graphs.adjacency.numpy() > 0.5
    attributes = graphs.edge_attributes if features else None
    per_pass = max(1, _CELLS_PER_PASS // max(graphs.mask.shape[1], 1) ** 2)
    refined = [np.zeros((0, graphs.mask.shape[1]), dtype=np.uint64)]
    for start in range(0, graphs.count, per_pass):
        some = slice(start, start + per_pass)
        weights = _attribute_weights(None if attributes is None else attributes[some])
        refined.append(_refined(colours[some], [weights * edges[some]]))
    return np.where(real, np.concatenate(refined), np.uint64(0))


def row_keys(features: Tensor) -> Tensor:
    """A number per feature row [..., feature], in double precision, the same for equal rows.

    A sum with fixed random weights, column by column: the order of a reduction may depend on the
    batch, and equal rows could differ in the last bit.
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(features.shape[-1], generator=generator, dtype=torch.float64)
    keys = torch.zeros(features.shape[:-1], dtype=torch.float64)
    for column, weight in zip(features.double().unbind(dim=-1), weights.tolist(), strict=True):
        keys = keys + column * weight
    return keys + 0.0  # no -0.0, whose bits differ


def _attribute_weights(attributes: Tensor | None) -> npt.NDArray[np.float64]:
    """A whole number up to 2^16 for every [..., attribute] row, 1 if there are no attributes.

    Neighbours' colours are multiplied by it, and the sums stay exact in floats.
    """
    if attributes is None:
        return np.ones(())
    words = _hashed(row_keys(attributes).numpy().view(np.uint64))
    return 1.0 + (words >> np.uint64(48)).astype(np.float64)


def _refined(
    colours: Words, relations: Sequence[npt.NDArray[np.float64]], *, rounds: int = _ROUNDS
) -> Words:
    """Colours [graph, node] refined along weighted [graph, node, node] relations."""
    colours = _hashed(colours)
    for _ in range(rounds):
        # With two numbers of 24 bits, float sums over neighbours are exact and fast.
        halves = np.stack([colours & _LOW_BITS, (colours >> np.uint64(24)) & _LOW_BITS], axis=2)
        refined = colours
        for weight in relations:
            low, high = np.moveaxis((weight @ halves.astype(np.float64)).astype(np.uint64), 2, 0)
            refined = _hashed(_hashed(_hashed(refined) + low) + high)
        colours = refined
    return colours
