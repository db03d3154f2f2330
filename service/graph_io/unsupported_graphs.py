"""Recognises directed and heterogeneous graphs, which cannot be explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from d4explain.contracts.results import NodeId
from d4explain.contracts.supported import DIRECTED, HETEROGENEOUS
from service.http.faults import Faults

_HETEROGENEOUS_KEYS = ("x_dict", "edge_index_dict", "node_types", "edge_types", "_global_store")


def check_supported(raw: Mapping[str, object], at: str, faults: Faults) -> None:
    """Reports a graph whose keys say that it is directed or heterogeneous."""
    if raw.get("directed") is True:
        faults.add(f"{at}/directed", f"is true; {DIRECTED}")
    for key in _HETEROGENEOUS_KEYS:
        if key in raw:
            faults.add(f"{at}/{key}", HETEROGENEOUS)
            return
    for key in ("edge_index", "x", "nodes"):
        if isinstance(raw.get(key), dict):
            faults.add(f"{at}/{key}", f"is an object; {HETEROGENEOUS}")
            return


def check_symmetric(edges: Sequence[tuple[NodeId, NodeId]], pointer: str, faults: Faults) -> None:
    """Reports an `edge_index` that lists some edges in both directions and some in one."""
    listed = set(edges)
    single = [pair for pair in listed if pair[::-1] not in listed]
    if single and len(single) < len(listed):
        faults.add(
            pointer,
            f"lists {len(single):,} of its {len(listed):,} entries in one direction only; "
            f"{DIRECTED}. List every edge once, or every edge in both directions",
        )
