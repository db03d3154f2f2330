"""Builds the layers of plug-ins; only this module imports their torch code."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from d4explain.contracts.errors import PluginError
from d4explain.contracts.gnn_files.gnn_tensors import plugin_tensors
from d4explain.contracts.plugins import ArchitecturePlugin, LayerPlugin, TensorShape, missing_types
from d4explain.contracts.spec_checks.layer_types import BUILT_IN, PluginDocument
from d4explain.gnn.spec import PluginLayer


def require_plugins(spec: Mapping[str, Any]) -> None:
    """Raises PluginError unless this worker has every plug-in that a stored spec names."""
    for name in missing_types(spec, BUILT_IN):
        raise PluginError(
            name,
            "the GNN has a layer of this type, but this worker has no such plug-in; install the "
            "same package as on the API",
        )


def plugin_layer(document: PluginDocument, width: int, outputs: int) -> PluginLayer:
    """A layer that receives `width` values, in a GNN that returns `outputs` values."""
    plugin, fields = document.plugin, document.fields
    name = document.type
    expected = plugin_tensors(document, width, outputs)
    if isinstance(plugin, LayerPlugin):
        arguments: tuple[Any, ...] = (fields, width)
        output_width = plugin.width(fields, width)
    else:
        arguments = (fields, width, outputs)
        output_width = outputs
    return PluginLayer(
        name=name,
        width=output_width,
        make=lambda: _build_module(name, plugin.module, arguments, expected),
        hops=plugin.hops(fields),
        pools=isinstance(plugin, ArchitecturePlugin) and plugin.task == "graph",
    )


def _build_module(
    name: str, path: str, arguments: tuple[Any, ...], expected: Mapping[str, TensorShape]
) -> nn.Module:
    module_name, class_name = path.split(":")
    try:
        module = getattr(import_module(module_name), class_name)(*arguments)
    except Exception as error:
        reason = f"{path} cannot be built: {type(error).__name__}: {error}"
        raise PluginError(name, reason) from error
    if not isinstance(module, nn.Module):
        raise PluginError(name, f"{path} returns a {type(module).__name__}, not a torch.nn.Module")
    actual = {key: _shape_of(tensor) for key, tensor in module.state_dict().items()}
    wrong = [key for key in {**expected, **actual} if expected.get(key) != actual.get(key)]
    if wrong:
        first = wrong[0]
        raise PluginError(
            name,
            f"the tensors of {path} do not match its description: {first} is "
            f"{actual.get(first, 'absent')}, described as {expected.get(first, 'absent')}",
        )
    return module


def _shape_of(tensor: Tensor) -> TensorShape:
    return TensorShape(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
