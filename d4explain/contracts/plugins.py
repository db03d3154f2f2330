"""Plug-ins: layers and whole GNNs from packages that operators install beside d4explain.

A package registers plug-ins as entry points of two groups. An entry point refers to a description
without torch, so that the API can check specs and weights. The description names the torch module
by its path; only workers import it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.errors import PluginError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MODULE_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Fields(BaseModel):
    """Base class of a plug-in's fields; it rejects unknown fields and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TensorShape(NamedTuple):
    shape: tuple[int, ...]
    dtype: str = "float32"  # NumPy's name: float32 or int64


Tensors = Mapping[str, tuple[int, ...] | TensorShape]  # names as in the module's state_dict()


def _one_hop(_: Any) -> int:
    return 1


def _whole_graph(_: Any) -> None:
    return None


@dataclass(frozen=True)
class LayerPlugin:
    """A layer from node values to node values; the entry point's name is its type in specs."""

    group: ClassVar[str] = "d4explain.layers"

    fields: type[Fields]
    module: str  # "package.module:Class", called with the fields and the input width
    width: Callable[[Any, int], int]  # output width, from the fields and the input width
    tensors: Callable[[Any, int], Tensors]  # of the module, from the same arguments
    hops: Callable[[Any], int | None] = _one_hop  # that it reads; None means the whole graph


@dataclass(frozen=True)
class ArchitecturePlugin:
    """A whole GNN, from node features to one value per class; it is the only layer of its spec."""

    group: ClassVar[str] = "d4explain.architectures"

    fields: type[Fields]
    module: str  # "package.module:Class", called with the fields and the counts of inputs, outputs
    tensors: Callable[[Any, int, int], Tensors]  # of the module, from the same arguments
    task: Literal["graph", "node"] = "graph"
    hops: Callable[[Any], int | None] = _whole_graph  # a node classifier must return a number


@dataclass(frozen=True)
class InstalledPlugin:
    name: str
    plugin: LayerPlugin | ArchitecturePlugin
    package: str
    version: str


BLACK_BOX = "black_box"  # type of a GNN that workers query at a URL; it belongs to no package


class BlackBoxFields(Fields):
    url: Annotated[str, Field(min_length=1, max_length=2000)]


def _no_tensors(_fields: Any, _features: int, _outputs: int) -> Tensors:
    return {}


_BLACK_BOX = InstalledPlugin(
    BLACK_BOX,
    ArchitecturePlugin(BlackBoxFields, "worker.loading.black_box:BlackBox", _no_tensors),
    package="",
    version="",
)


@cache
def installed_plugins() -> Mapping[str, InstalledPlugin]:
    """All plug-ins of this environment by their type in specs; PluginError if one is broken."""
    plugins = {BLACK_BOX: _BLACK_BOX}
    for kind in (LayerPlugin, ArchitecturePlugin):
        for entry_point in entry_points(group=kind.group):
            plugin = _load(entry_point, kind)
            if plugin.name in plugins:
                other = plugins[plugin.name].package or "d4explain"
                raise PluginError(plugin.name, f"both {plugin.package} and {other} provide it")
            plugins[plugin.name] = plugin
    return plugins


def missing_types(spec: Mapping[str, Any], built_in: frozenset[str]) -> list[str]:
    """Layer types of a stored spec that are neither built in nor installed here."""
    return [name for name in _types(spec) if name not in built_in | installed_plugins().keys()]


def used_plugins(spec: Mapping[str, Any]) -> Iterator[InstalledPlugin]:
    """The installed plug-ins that a stored spec needs, without the black box."""
    for name in _types(spec):
        if name in installed_plugins() and name != BLACK_BOX:
            yield installed_plugins()[name]


def _types(spec: Mapping[str, Any]) -> list[str]:
    """The layer types of a stored spec, each once, in order."""
    return list(dict.fromkeys(layer["type"] for layer in spec.get("layers", [])))


def _load(
    entry_point: EntryPoint, kind: type[LayerPlugin] | type[ArchitecturePlugin]
) -> InstalledPlugin:
    name = entry_point.name
    package = entry_point.dist.name if entry_point.dist else "a package without a name"
    version = entry_point.dist.version if entry_point.dist else "unknown"
    source = f"{entry_point.value} of {package}"
    if not _NAME.fullmatch(name):
        rule = "a name has at most 40 lower-case letters, digits and _, and starts with a letter"
        raise PluginError(name, f"{source}: {rule}")
    had_torch = "torch" in sys.modules
    try:
        plugin = entry_point.load()
    except Exception as error:
        reason = f"{source} cannot be imported: {type(error).__name__}: {error}"
        raise PluginError(name, reason) from error
    if "torch" in sys.modules and not had_torch:
        raise PluginError(name, f"{source} imports torch; only its module may do so")
    if not isinstance(plugin, kind):
        expected, actual = kind.__name__, type(plugin).__name__
        raise PluginError(name, f"{source} is a {actual}; {kind.group} expects a {expected}")
    _check(name, source, plugin)
    return InstalledPlugin(name, plugin, package, version)


def _check(name: str, source: str, plugin: LayerPlugin | ArchitecturePlugin) -> None:
    if not (isinstance(plugin.fields, type) and issubclass(plugin.fields, Fields)):
        rule = "its fields must be a subclass of d4explain.plugins.Fields"
        raise PluginError(name, f"{source}: {rule}")
    for reserved in ("type", "name", "inputs"):
        if reserved in plugin.fields.model_fields:
            raise PluginError(name, f"{source}: the field name {reserved!r} is reserved")
    if not _MODULE_PATH.fullmatch(plugin.module):
        problem = f"its module is {plugin.module!r}, not of the form package.module:Class"
        raise PluginError(name, f"{source}: {problem}")
