"""Which chain visited a mined pattern."""

from __future__ import annotations

import torch

from d4explain.gnn.graphs import Graph, to_dense
from models.classes.candidates import _from_data, _visited_by_code
from models.classes.mining import count_pattern, typed_codes
from models.classes.pool import Pool
from models.classes.reference_graphs import ReferenceGraphs


def graph(*edges: tuple[int, int]) -> Graph:
    ends = torch.tensor([sorted(pair) for pair in edges]).T.contiguous()
    return Graph(torch.ones(int(ends.max()) + 1, 1), ends)


# Colour refinement gives both the same code: the six nodes of each look alike from nearby.
LADDER = graph((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5))
TRIANGLES = graph((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3))
RENAMED_LADDER = graph((5, 4), (4, 3), (2, 1), (1, 0), (5, 2), (4, 1), (3, 0))


def test_a_chain_counts_only_if_it_visited_the_pattern_itself() -> None:
    reference = ReferenceGraphs.of(
        [LADDER, TRIANGLES] * 2, [True, False] * 2, torch.Generator().manual_seed(0)
    )
    codes = typed_codes([LADDER, TRIANGLES, RENAMED_LADDER], reference.types)
    assert len(set(codes)) == 1
    mined = count_pattern(LADDER, reference)
    for visited, expected in (
        ([TRIANGLES], None),
        ([TRIANGLES, RENAMED_LADDER], 1),
        ([LADDER, RENAMED_LADDER], 0),
    ):
        pool = pool_of(visited)
        places = _visited_by_code(pool, reference)[codes[0]]
        found = _from_data(mined, pool, places, reference)
        assert found.visited == expected
        assert found.sources == (("data",) if expected is None else ("denoiser", "data"))


def pool_of(graphs: list[Graph]) -> Pool:
    return Pool(
        graphs=to_dense(graphs),
        log_likelihood=torch.zeros(len(graphs)),
        chain=list(range(len(graphs))),
        step=[0] * len(graphs),
        steps=[],
    )
