"""Builds the options of a request from those of `d4explain explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from d4explain.cli.input.files import read_object
from d4explain.cli.input.node_ids import node_ids, node_pairs
from d4explain.cli.options import given, parse_settings, refuse

# Options whose name and value are those of the field.
_COMMON = ("explainer", "preset", "seed", "time_budget")
_CLASS = ("node_count", "example_count", "candidates", "steps")
_COUNTERFACTUAL = ("aim", "alternatives", "max_queries")
_CONSTRAINTS = ("max_edits", "max_ratio", "actions", "keep_connected", "valid_molecule")
# Options that have no effect on the other kind.
_CLASSES_ONLY = (*_CLASS, "regulariser")
_GRAPHS_ONLY = (
    *_COUNTERFACTUAL, *_CONSTRAINTS, "judge", "allow_unseen", "frozen_node", "frozen_edge",
    "constraints", "dry_run",
)  # fmt: skip

Options = Mapping[str, Any]  # by the name of the parameter


def class_options(options: Options) -> dict[str, Any]:
    refuse(_some(options, _GRAPHS_ONLY), "for graphs and nodes, not for a class")
    return given(
        **_some(options, (*_COMMON, *_CLASS)),
        denoiser=_denoiser(options["denoiser"]),
        metadata=parse_settings(options["metadata"]),
        regularisers=parse_settings(options["regulariser"]),
    )


def counterfactual_options(options: Options, graphs: list[dict[str, Any]]) -> dict[str, Any]:
    refuse(_some(options, _CLASSES_ONLY), "for a class, not for graphs or nodes")
    judges = list(options["judge"] or ())
    return given(
        **_some(options, (*_COMMON, *_COUNTERFACTUAL)),
        denoiser=_denoiser(options["denoiser"]),
        metadata=parse_settings(options["metadata"]),
        judges="none" if judges == ["none"] else judges,
        nodes=node_ids(graphs, options["node"]),
        constraints=_constraints(options, graphs),
    )


def _constraints(options: Options, graphs: list[dict[str, Any]]) -> dict[str, Any]:
    limits = given(
        **_some(options, _CONSTRAINTS),
        frozen_nodes=node_ids(graphs, options["frozen_node"], "--frozen-node"),
        frozen_edges=node_pairs(graphs, options["frozen_edge"], "--frozen-edge"),
    )
    if options["allow_unseen"]:
        limits["only_seen"] = False
    file = options["constraints"]
    return {**({} if file is None else read_object(file)), **limits}


def _denoiser(texts: Sequence[str] | None) -> str | dict[str, Any] | None:
    """The id of a denoiser, or how to train one."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return parse_settings(texts)


def _some(options: Options, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names}
