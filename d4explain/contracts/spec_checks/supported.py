"""What can be explained, in the words of the messages that refuse anything else."""

from __future__ import annotations

SUPPORTED = (
    "supported are classifiers of graphs and of nodes, on undirected graphs with one kind of nodes "
    "and one kind of edges"
)
DIRECTED = f"directed graphs are not supported; {SUPPORTED}"
HETEROGENEOUS = (
    f"heterogeneous graphs are not supported; {SUPPORTED}. Types of nodes can be one-hot features"
)
REGRESSION = f"regression is not supported; {SUPPORTED}"
LINKS = f"link prediction is not supported; {SUPPORTED}"

# Fields that other libraries use for what is not supported.
UNSUPPORTED_FIELDS = {
    "directed": DIRECTED,
    "node_types": HETEROGENEOUS,
    "edge_types": HETEROGENEOUS,
    "metadata": HETEROGENEOUS,
    "x_dict": HETEROGENEOUS,
    "edge_index_dict": HETEROGENEOUS,
    "target_value": REGRESSION,
    "edge": LINKS,
    "link": LINKS,
    "links": LINKS,
    "edge_label_index": LINKS,
}


def task_fault(sent: object) -> str | None:
    """Why a `task` or a `kind` of question is not supported, if that is what was sent."""
    text = sent.lower() if isinstance(sent, str) else ""
    if "regress" in text:
        return REGRESSION
    return LINKS if "link" in text or "edge" in text else None
