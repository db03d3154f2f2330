"""Parts of posted graphs that no GNN reads.

What changes nothing is left out and named in the warnings of the answer. What the caller must have
meant otherwise is refused: edge weights, and features under another name than `x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from service.graph_io.features.expected_features import ExpectedFeatures
from service.http.faults import Faults, shown

_Part = Literal["node", "edge", "graph"]

_READ: dict[_Part, frozenset[str]] = {
    "node": frozenset({"id", "x", "label"}),
    "edge": frozenset({"source", "target", "edge_attr", "key"}),
    "graph": frozenset({"edge_index", "x", "edge_attr", "num_nodes", "node_ids", "label", "y"}),
}
_WEIGHTS = frozenset({"weight", "weights", "edge_weight", "edge_weights"})
_OTHER_WORDS = {"feat", "feats", "feature", "features", "attr", "attrs", "attribute", "attributes"}
_FEATURES = frozenset({"xs", "h", *_OTHER_WORDS, *(f"node_{word}" for word in _OTHER_WORDS)})
_EDGE_ATTRIBUTES = frozenset({*_OTHER_WORDS, *(f"edge_{word}" for word in _OTHER_WORDS)})
_MAX_NAMES = 8  # per warning


class InputWarnings:
    """Collects what was left out of posted graphs; each part is named once."""

    def __init__(self) -> None:
        self._unread: dict[_Part, dict[str, None]] = {}
        self.constant_features = False  # whether nodes without features got the constant 1

    def add_unread(self, part: _Part, names: Iterable[str]) -> None:
        self._unread.setdefault(part, {}).update(dict.fromkeys(names))

    @property
    def texts(self) -> list[str]:
        texts = [_unread_text(part, list(names)) for part, names in self._unread.items() if names]
        if self.constant_features:
            texts.append("nodes have no features (`x`); each of them has the feature 1")
        return texts


def _unread_text(part: _Part, names: list[str]) -> str:
    listed = ", ".join(shown(name) for name in names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return f"these attributes of {part}s are not read and were left out: {listed}{more}"


def check_unread(
    raw: Mapping[str, object],
    at: str,
    expected: ExpectedFeatures | None,
    faults: Faults,
    warnings: InputWarnings,
) -> None:
    """Checks the names in a node-link graph or a PyG dict whose types are valid."""
    if "edge_index" in raw:
        _check_pyg(raw, at, expected, faults, warnings)
        return
    edges_key = "edges" if raw.get("edges") is not None else "links"
    parts: tuple[tuple[_Part, str], ...] = (("node", "nodes"), ("edge", edges_key))
    for part, key in parts:
        _check_parts(
            part, raw.get(key), f"{at}/{key}", expected=expected, faults=faults, warnings=warnings
        )


def _check_parts(
    part: _Part,
    items: object,
    at: str,
    *,
    expected: ExpectedFeatures | None,
    faults: Faults,
    warnings: InputWarnings,
) -> None:
    """Checks all nodes or all edges of a node-link graph."""
    parts: list[dict[str, object]] = items if isinstance(items, list) else []
    names = dict.fromkeys(name for one in parts for name in one)
    unread = [name for name in names if name not in _READ[part]]
    if not unread:
        return
    for name in unread:
        first = next(position for position, one in enumerate(parts) if name in one)
        pointer = f"{at}/{first}/{name}"
        if part == "node":
            _check_feature_name(name, pointer, _is_given(parts, "x"), faults)
        elif name in _WEIGHTS:
            _check_weights([one.get(name) for one in parts], pointer, expected, faults)
        else:
            _check_edge_name(name, pointer, _is_given(parts, "edge_attr"), expected, faults)
    warnings.add_unread(part, (name for name in unread if name not in _WEIGHTS))


def _is_given(parts: list[dict[str, object]], name: str) -> bool:
    return any(one.get(name) is not None for one in parts)


def _check_pyg(
    raw: Mapping[str, object],
    at: str,
    expected: ExpectedFeatures | None,
    faults: Faults,
    warnings: InputWarnings,
) -> None:
    unread = [name for name in raw if name not in _READ["graph"] and raw[name] is not None]
    for name in unread:
        if name in _WEIGHTS:
            values = raw[name]
            listed = values if isinstance(values, list) else [values]
            _check_weights(listed, f"{at}/{name}", expected, faults)
        elif name.lower() in _EDGE_ATTRIBUTES - _OTHER_WORDS:
            has_attributes = raw.get("edge_attr") is not None
            _check_edge_name(name, f"{at}/{name}", has_attributes, expected, faults)
        else:
            _check_feature_name(name, f"{at}/{name}", raw.get("x") is not None, faults)
    left_out = (name for name in unread if name not in _WEIGHTS and name != "directed")
    warnings.add_unread("graph", left_out)


def is_edge_value(name: str) -> bool:
    """Whether an array of this name holds weights or attributes of edges."""
    return name in _WEIGHTS or name.lower() in {"edge_attr"} | _EDGE_ATTRIBUTES - _OTHER_WORDS


def is_feature_name(name: str) -> bool:
    """Whether other libraries give this name to what is called `x` here."""
    return name == "X" or name.lower() in _FEATURES


def _check_feature_name(name: str, pointer: str, has_features: bool, faults: Faults) -> None:
    if not has_features and is_feature_name(name):
        faults.add(pointer, "is not read; the features of nodes are called `x`")


def _check_edge_name(
    name: str,
    pointer: str,
    has_attributes: bool,
    expected: ExpectedFeatures | None,
    faults: Faults,
) -> None:
    reads_none = expected is not None and expected.edges is not None and not expected.edges.size
    if not has_attributes and not reads_none and name.lower() in _EDGE_ATTRIBUTES:
        faults.add(pointer, "is not read; the attributes of edges are called `edge_attr`")


def _check_weights(
    weights: list[object], pointer: str, expected: ExpectedFeatures | None, faults: Faults
) -> None:
    """Refuses weights other than 1, which every edge has anyway."""
    other = next((one for one in weights if one is not None and one not in (1, [1])), None)
    if other is None:
        return
    if expected is None or expected.edges is None:
        way_out = "a GNN with `edge_features` reads `edge_attr`: move them there, or remove them"
    elif expected.edges.size:
        way_out = f"{expected.edges.requirement} attributes per edge, called `edge_attr`"
    else:
        way_out = f"{expected.source} reads no edge weights: remove them"
    sent = f"{other:.6g}" if isinstance(other, int | float) else shown(other)
    faults.add(pointer, f"has the weight {sent}, which is not read; {way_out}")
