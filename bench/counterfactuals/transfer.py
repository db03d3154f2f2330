"""Asks judges whether they share the flips of a method."""

from __future__ import annotations

from collections.abc import Sequence

from bench.counterfactuals.figures import MethodResult, toggle_pairs
from bench.counterfactuals.instances import CPU
from d4explain.gnn.network import Gnn
from models.evaluation.transfer import Votes, graph_votes


def judge_votes(gnn: Gnn, judges: Sequence[Gnn], answers: Sequence[MethodResult]) -> Votes:
    """Ask every judge about the originals and the first answers."""
    originals = [answer.instance.graph for answer in answers]
    edited = [
        toggle_pairs(answer.instance.graph, answer.found[0]) if answer.found else None
        for answer in answers
    ]
    return graph_votes(gnn, judges, originals, edited, CPU)
