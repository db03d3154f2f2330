"""From the layers of plug-ins to torch: here, and nowhere else, their modules are imported."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from d4explain.contracts.errors import PluginError
from d4explain.contracts.gnn_layers import BUILT_IN, PluggedDocument
from d4explain.contracts.gnn_tensors import plugged_tensors
from d4explain.contracts.plugins import ArchitecturePlugin, LayerPlugin, TensorShape, missing
from d4explain.gnn.spec import PluggedLayer


def require_plugins(spec: Mapping[str, Any]) -> None:
    """Raises unless this worker has every plug-in that a stored spec names."""
    for name in missing(spec, BUILT_IN):
        raise PluginError(
            name,
            "the GNN has a layer of this type, but this worker has no such plug-in; install the "
            "package that the API has",
        )


def plugged_layer(document: PluggedDocument, width: int, outputs: int) -> PluggedLayer:
    """Of a layer that gets `width` values, in a GNN that gives `outputs` values."""
    plugin, fields = document.plugin, document.fields
    name = document.type
    expected = plugged_tensors(document, width, outputs)
    if isinstance(plugin, LayerPlugin):
        arguments: tuple[Any, ...] = (fields, width)
        leaves = plugin.width(fields, width)
    else:
        arguments = (fields, width, outputs)
        leaves = outputs
    return PluggedLayer(
        name=name,
        width=leaves,
        make=lambda: _made(name, plugin.module, arguments, expected),
        hops=plugin.hops(fields),
        pools=isinstance(plugin, ArchitecturePlugin) and plugin.task == "graph",
    )


def _made(
    name: str, path: str, arguments: tuple[Any, ...], expected: Mapping[str, TensorShape]
) -> nn.Module:
    module_name, class_name = path.split(":")
    try:
        made = getattr(import_module(module_name), class_name)(*arguments)
    except Exception as error:
        why = f"{path} cannot be built: {type(error).__name__}: {error}"
        raise PluginError(name, why) from error
    if not isinstance(made, nn.Module):
        raise PluginError(name, f"{path} gives a {type(made).__name__}, not a torch.nn.Module")
    found = {key: TensorShape(*_said(tensor)) for key, tensor in made.state_dict().items()}
    wrong = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    if wrong:
        first = wrong[0]
        said = (
            f"{first} is {found.get(first, 'absent')}, described as {expected.get(first, 'absent')}"
        )
        raise PluginError(name, f"the tensors of {path} are not those of its description: {said}")
    return made


def _said(tensor: Any) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
