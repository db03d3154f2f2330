"""Edits of global counterfactuals in words."""

from __future__ import annotations

from d4explain.contracts.global_counterfactuals.results import GlobalEditRule, GlobalResult


def type_names(result: GlobalResult) -> dict[int, str]:
    return {one.type: one.name or f"type {one.type}" for one in result.node_types}


def rule_words(rule: GlobalEditRule, names: dict[int, str]) -> str:
    types = [names[one] for one in rule.types]
    match rule.kind:
        case "retype":
            return f"{types[0]} becomes {types[1]}"
        case "add_edge":
            return f"add edge {types[0]}-{types[1]}"
        case "remove_edge":
            return f"remove edge {types[0]}-{types[1]}"
        case "add_node":
            return f"add node {types[0]}"
        case "remove_node":
            return f"remove node {types[0]}"
