"""Runs a model once on sample graphs and records the operations that its output depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from d4explain.errors import CommandError
from d4explain.export.model_runners import ModelInputs, ModelRunner, Original, chosen_output
from d4explain.export.tracing.module_calls import recorded_modules
from d4explain.export.tracing.recording import Index, Operation, Recorder, Value
from d4explain.export.tracing.tensor_functions import RecordingMode
from d4explain.export.translators.translation import FinalActivation
from d4explain.gnn.graphs import SparseGraphs
from d4explain.gnn.spec import ActivationLayer


@dataclass(frozen=True)
class Trace:
    """The operations in order; the last one gives the logits."""

    operations: Sequence[Operation]
    final_activation: FinalActivation | None  # applied to the logits; not part of the spec


def trace(original: Original, graphs: SparseGraphs) -> Trace:
    """Records one run; raises CommandError with every step that cannot be expressed."""
    recorder = Recorder(_run.__code__)
    inputs = original.inputs(graphs)
    recorder.start(inputs.x, next(iter(inputs.edges.values()), None))
    recorder.bind(inputs.edge_index, Index.EDGES)
    recorder.bind(inputs.batch, Index.GRAPHS)
    with torch.no_grad(), recorded_modules(recorder, original.model), RecordingMode(recorder):
        result = _run(original.run, inputs)
    if recorder.python_reads:
        raise _cannot_be_exported(recorder.python_reads)
    symbol = recorder.symbol(chosen_output(result, original.output))
    if not isinstance(symbol, Value) or symbol.number < 1:
        raise CommandError(
            "the output of the model does not depend on its inputs by operations that export can "
            "follow; it must be computed from x with tensors of torch"
        )
    return _finished(_needed(recorder.operations, symbol.number))


def _run(run: ModelRunner, inputs: ModelInputs) -> Any:
    return run(inputs)


def _needed(operations: Sequence[Operation], output: int) -> list[Operation]:
    """The operations that the output depends on, numbered anew; a problem ends the export."""
    used: set[int] = set()
    pending = [output]
    while pending:
        number = pending.pop()
        if number > 0 and number not in used:
            used.add(number)
            pending += operations[number - 1].inputs
    order = sorted(used)
    problems = [
        f"{operations[number - 1].where}: {operations[number - 1].problem}"
        for number in order
        if operations[number - 1].problem is not None
    ]
    if problems:
        raise _cannot_be_exported(problems)
    return renumbered(operations, order)


def _cannot_be_exported(problems: Sequence[str]) -> CommandError:
    listed = "\n  ".join(dict.fromkeys(problems))
    return CommandError(f"these steps cannot be exported:\n  {listed}")


def renumbered(operations: Sequence[Operation], order: Sequence[int]) -> list[Operation]:
    """The operations with these numbers, in this order, with inputs numbered anew."""
    numbers = {old: new for new, old in enumerate(order, 1)}
    return [
        replace(one, inputs=tuple(numbers.get(number, number) for number in one.inputs))
        for one in (operations[number - 1] for number in order)
    ]


def _finished(operations: list[Operation]) -> Trace:
    """Splits off the activation that turns logits into probabilities."""
    *before, last = operations
    final = last.final_activation
    if final is None and last.layer == ActivationLayer("sigmoid"):
        if last.width > 1:
            raise CommandError(
                f"{last.where} gives {last.width} outputs a probability each (several labels per "
                "row); only classifiers with one class per graph or node are supported",
                hint="explain one label at a time: export a module that returns its column, "
                "without the sigmoid",
            )
        final = "sigmoid"
    rest = before if final is not None else operations
    for one in rest:
        if one.final_activation is not None:
            raise CommandError(f"{one.where} can only be the last step of the model")
    if final is not None and last.inputs != (len(before),):
        raise CommandError(f"{last.where} must read the step before it")
    if not rest:
        raise CommandError("the model has no layer that outputs the classes")
    return Trace(rest, final)
