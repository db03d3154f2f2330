"""Layers and whole GNNs that operators install as packages beside d4explain.

A package names them by entry points of two groups. What an entry point leads to describes the layer
without torch, so that the API can check specs and weights; the module itself is named by its path
and imported by workers only.
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
_MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Fields(BaseModel):
    """The base of a plugged layer's fields: what is not declared, or of another type, is refused"""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TensorShape(NamedTuple):
    shape: tuple[int, ...]
    dtype: str = "float32"  # numpy's name; else int64


Tensors = Mapping[str, tuple[int, ...] | TensorShape]  # by the names of the module's state_dict()


def _one(_: Any) -> int:
    return 1


def _unknown(_: Any) -> None:
    return None


@dataclass(frozen=True)
class LayerPlugin:
    """A layer from node values to node values; its type in specs is the entry point's name."""

    group: ClassVar[str] = "d4explain.layers"

    fields: type[Fields]
    module: str  # "package.module:Class", called with the fields and the width that enters
    width: Callable[[Any, int], int]  # that leaves, from the fields and the width that enters
    tensors: Callable[[Any, int], Tensors]  # of the module, from the same
    hops: Callable[[Any], int | None] = _one  # that it looks away; None: at the whole graph


@dataclass(frozen=True)
class ArchitecturePlugin:
    """A whole GNN, from node features to the values of the classes; the only layer of its spec."""

    group: ClassVar[str] = "d4explain.architectures"

    fields: type[Fields]
    module: str  # "package.module:Class", called with the fields, the features and the outputs
    tensors: Callable[[Any, int, int], Tensors]  # of the module, from the same
    task: Literal["graph", "node"] = "graph"
    hops: Callable[[Any], int | None] = _unknown  # a node classifier has to say how far it looks


@dataclass(frozen=True)
class Installed:
    name: str
    plugin: LayerPlugin | ArchitecturePlugin
    package: str
    version: str


BLACK_BOX = "black_box"  # the type of a GNN that is asked by URL: it comes from no package


class BlackBoxFields(Fields):
    url: Annotated[str, Field(min_length=1, max_length=2000)]


def _no_tensors(_fields: Any, _features: int, _outputs: int) -> Tensors:
    return {}


_BLACK_BOX = Installed(
    BLACK_BOX,
    ArchitecturePlugin(BlackBoxFields, "worker.loading.black_box:BlackBox", _no_tensors),
    package="",
    version="",
)


@cache
def installed() -> Mapping[str, Installed]:
    """Every plug-in of this environment by the type that specs name; a broken one is an error."""
    found = {BLACK_BOX: _BLACK_BOX}
    for kind in (LayerPlugin, ArchitecturePlugin):
        for point in entry_points(group=kind.group):
            plugin = _loaded(point, kind)
            if point.name in found:
                other = found[point.name].package or "d4explain"
                raise PluginError(point.name, f"{plugin.package} and {other} both have it")
            found[point.name] = plugin
    return found


def missing(spec: Mapping[str, Any], built_in: frozenset[str]) -> list[str]:
    """Types that a stored spec names and that neither the vocabulary nor a plug-in has here."""
    types = dict.fromkeys(layer["type"] for layer in spec.get("layers", []))
    return [name for name in types if name not in built_in and name not in installed()]


def used(spec: Mapping[str, Any]) -> Iterator[Installed]:
    """The plug-ins that a stored spec needs."""
    for name in dict.fromkeys(layer["type"] for layer in spec.get("layers", [])):
        if name in installed() and name != BLACK_BOX:
            yield installed()[name]


def _loaded(point: EntryPoint, kind: type[LayerPlugin] | type[ArchitecturePlugin]) -> Installed:
    package = point.dist.name if point.dist else "a package without a name"
    version = point.dist.version if point.dist else "unknown"
    said = f"{point.value} of {package}"
    if not _NAME.fullmatch(point.name):
        raise PluginError(
            point.name, f"{said}: names are lower-case letters, digits and _, 40 most"
        )
    had_torch = "torch" in sys.modules
    try:
        plugin = point.load()
    except Exception as error:
        why = f"{said} cannot be imported: {type(error).__name__}: {error}"
        raise PluginError(point.name, why) from error
    if "torch" in sys.modules and not had_torch:
        raise PluginError(point.name, f"{said} imports torch, which only its module may do")
    if not isinstance(plugin, kind):
        wanted, got = kind.__name__, type(plugin).__name__
        raise PluginError(point.name, f"{said} is a {got}; {kind.group} takes a {wanted}")
    _check(point.name, said, plugin)
    return Installed(point.name, plugin, package, version)


def _check(name: str, said: str, plugin: LayerPlugin | ArchitecturePlugin) -> None:
    if not (isinstance(plugin.fields, type) and issubclass(plugin.fields, Fields)):
        raise PluginError(
            name, f"{said}: its fields must be a subclass of d4explain.plugins.Fields"
        )
    if "type" in plugin.fields.model_fields:
        raise PluginError(name, f"{said}: a field called type is the layer's own")
    if not _MODULE.fullmatch(plugin.module):
        wrong = f"its module is {plugin.module!r}, not of the form package.module:Class"
        raise PluginError(name, f"{said}: {wrong}")
