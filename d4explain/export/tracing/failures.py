"""Says at which module and line a model fails."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch import nn

from d4explain.errors import CommandError
from d4explain.export.model_runners import ModelInputs, ModelRunner
from d4explain.export.tracing.recording import is_library, module_label, short_path
from d4explain.export.translators.layers import COMPOSED, is_layer, translate
from d4explain.export.translators.translation import UnsupportedLayerError


def failing_step(model: nn.Module, run: ModelRunner, inputs: ModelInputs) -> str | None:
    """Where and why the model fails on these inputs; None if it runs."""
    entered: list[tuple[str, nn.Module]] = []
    handles: list[Any] = []
    for path, module in model.named_modules():
        step = (module_label(model, path, module), module)
        handles.append(module.register_forward_pre_hook(lambda *_, step=step: entered.append(step)))
        handles.append(module.register_forward_hook(lambda *_: entered.pop() and None))
    try:
        with torch.no_grad():
            run(inputs)
    except CommandError:
        raise
    except Exception as error:
        return _described(error, entered)
    finally:
        for handle in handles:
            handle.remove()
    return None


def _described(error: Exception, entered: list[tuple[str, nn.Module]]) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not is_library(frame.filename)]
    parts = [f"{short_path(own[-1].filename)}:{own[-1].lineno}"] if own else []
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    steps = [step for step in entered if is_layer(step[1])] or entered[-1:]
    if not steps:
        return ": ".join([*parts, reason])
    label = steps[0][0]  # the outermost layer is the one that the user wrote
    for name, module in steps:
        problem = _problem(module)
        if problem is not None:
            label, reason = name, problem
            break
    return ": ".join([*parts, label, reason])


def _problem(module: nn.Module) -> str | None:
    if isinstance(module, COMPOSED) or not is_layer(module):
        return None
    try:
        translate(module)
    except UnsupportedLayerError as problem:
        return str(problem)
    return None
