"""Which counterfactuals to return: few edits, near the input's statistics, really different."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby

import torch
from torch import Tensor

from models.counterfactual.large.candidate_space import CandidateSpace
from models.counterfactual.oracle import CounterfactualOracle
from models.graphs.connectivity import component_counts
from models.graphs.edits import EditSet, EditSpace, SmallestSets
from models.graphs.isomorphism import marked_codes

_PER_COMPONENT = 0.02  # as strange as this much of earth mover's distance


def shortlist(judge: CounterfactualOracle, plausibility: Tensor, count: int) -> list[EditSet]:
    """Known flips worth a verdict, smallest first; of too many of one size, a mixed choice.

    Half of those are the ones with the greatest margins, half the most plausible ones.
    """
    single = plausibility.tolist()
    smallest = SmallestSets()
    for _, group in groupby(judge.flips(), key=len):
        fresh = [edits for edits in group if not smallest.covers(edits)]
        room = count - len(smallest.kept)
        if len(fresh) > room:
            margin_of = dict(zip(fresh, judge.margins(fresh), strict=True))
            by_margin = sorted(fresh, key=lambda edits: (-margin_of[edits], edits))
            likely = {edits: sum(single[pair] for pair in edits) for edits in fresh}
            by_likelihood = sorted(fresh, key=lambda edits: (-likely[edits], edits))
            in_turns = chain.from_iterable(zip(by_likelihood, by_margin, strict=True))
            fresh = list(dict.fromkeys(in_turns))[:room]
        for edits in fresh:
            smallest.add(edits)
        if len(smallest.kept) >= count:
            break
    return smallest.kept


def statistics_shift(space: EditSpace, edit_sets: Sequence[EditSet]) -> list[float]:
    """How far each edited graph strays from the input; small is natural.

    The earth mover's distances of degrees (over the mean degree), clustering coefficients and
    normalised Laplacian spectra, and a little for every connected component more or less. Both
    graphs have the same nodes, so a distance is the mean gap between sorted values. Likelihood is
    left out on purpose: its arg max seeks modes and measures worse. Of graphs that are edited at
    candidate pairs only, spectra take too long and are left out, and components do not count.
    """
    if isinstance(space, CandidateSpace):
        return space.strangeness(edit_sets)
    after = space.dense([(), *edit_sets])
    components = component_counts(after)
    strayed = torch.zeros(after.count)
    for values in _statistics(after.adjacency):
        ordered = values.sort(dim=1).values
        strayed += (ordered - ordered[:1]).abs().mean(dim=1)
    strayed += _PER_COMPONENT * (components - components[0]).abs()
    return strayed[1:].tolist()


def choose(space: EditSpace, edit_sets: Sequence[EditSet], count: int) -> list[EditSet]:
    """The best sets of a ranking by (edits, statistics_shift), none a near-duplicate of another.

    No chosen set contains another, and no two are the same up to a symmetry of the graph. Among
    sets that are equally small, those that share fewest edits with the ones already chosen go
    first.
    """
    distinct = SmallestSets(edit_sets).kept
    strangeness = dict(zip(distinct, statistics_shift(space, distinct), strict=True))
    distinct.sort(key=lambda edits: (len(edits), strangeness[edits], edits))
    codes = codes_of(space, distinct)
    by_code: dict[int, EditSet] = {}
    for code, edits in zip(codes, distinct, strict=True):
        by_code.setdefault(code, edits)
    left = list(by_code.values())
    chosen: list[EditSet] = []
    while left and len(chosen) < count:
        best = min(
            left,
            key=lambda edits: (
                len(edits),
                max((_shared(edits, other) for other in chosen), default=0.0),
                strangeness[edits],
                edits,
            ),
        )
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda edits: (len(edits), strangeness[edits], edits))


def codes_of(space: EditSpace, edit_sets: Sequence[EditSet]) -> list[int]:
    """Equal for sets that are alike up to a symmetry of the graph."""
    if isinstance(space, CandidateSpace):
        return space.codes(edit_sets)
    return marked_codes(space, edit_sets)


def _shared(one: EditSet, other: EditSet) -> float:
    """Jaccard similarity of two edit sets."""
    both = len(set(one) & set(other))
    return both / (len(one) + len(other) - both)


def _statistics(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Degree over mean degree of the first graph, clustering, spectrum: [graph, node] each."""
    degree = adjacency.sum(dim=2)
    triangles = (torch.bmm(adjacency, adjacency) * adjacency).sum(dim=2)  # twice their number
    clustering = triangles / (degree * (degree - 1)).clamp(min=1)
    scale = degree.clamp(min=1).rsqrt()
    # isolated nodes get eigenvalue 0, as in NetworkX
    connected = torch.diag_embed((degree > 0).to(adjacency.dtype))
    laplacian = connected - scale[:, :, None] * adjacency * scale[:, None, :]
    spectrum = torch.linalg.eigvalsh(laplacian)
    return degree / degree[0].mean().clamp(min=1), clustering, spectrum
