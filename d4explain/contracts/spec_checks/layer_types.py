"""Finds the document of a layer by its `type`: built-in layers first, then plug-ins."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import (
    ConfigDict,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from d4explain.contracts.errors import PluginError
from d4explain.contracts.gnn_layers import LayerDocument
from d4explain.contracts.plugins import (
    BLACK_BOX,
    ArchitecturePlugin,
    Fields,
    LayerPlugin,
    installed_plugins,
)
from d4explain.contracts.vocabulary.spec_model import LayerModel, SpecModel

BUILT_IN: frozenset[str] = frozenset(
    get_args(layer.model_fields["type"].annotation)[0]
    for layer in get_args(get_args(LayerDocument)[0])
)
_BUILT_IN_LAYER: TypeAdapter[Any] = TypeAdapter(LayerDocument)

# Validation context of a spec that was accepted before: a plug-in may be gone since then.
STORED = {"stored": True}


class PluginDocument(LayerModel):
    """A layer or a whole GNN of a plug-in; it has the plug-in's own fields beside `type`."""

    model_config = ConfigDict(extra="allow")

    type: str

    @property
    def is_installed(self) -> bool:
        return self.type in installed_plugins()

    @property
    def plugin(self) -> LayerPlugin | ArchitecturePlugin:
        return installed_plugins()[self.type].plugin

    @property
    def fields(self) -> Fields:
        return self.plugin.fields.model_validate(self.model_extra)

    @property
    def is_architecture(self) -> bool:
        return isinstance(self.plugin, ArchitecturePlugin)


def check_plugins() -> None:
    """Raises PluginError if an installed plug-in is broken or has the name of a built-in layer."""
    for name in sorted(BUILT_IN & installed_plugins().keys()):
        raise PluginError(name, "a built-in layer has this name")


def _parse_layer(value: object, _: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    name = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(name, str) or name in BUILT_IN:
        return value if isinstance(value, SpecModel) else _BUILT_IN_LAYER.validate_python(value)
    if name in installed_plugins():
        own = {key: entry for key, entry in value.items() if key in PluginDocument.model_fields}
        sent = {key: entry for key, entry in value.items() if key not in own}
        fields = installed_plugins()[name].plugin.fields.model_validate(sent)
        return PluginDocument(**own, **fields.model_dump(mode="json"))
    if info.context == STORED:
        return PluginDocument(**value)
    plugins = sorted(installed_plugins().keys() - {BLACK_BOX})
    known = [*sorted(BUILT_IN), *(f"{plugin} (plug-in)" for plugin in plugins)]
    raise PydanticCustomError(
        "layer_type",
        "type {name} is not known to this deployment; it knows {known}",
        {"name": repr(name[:40]), "known": ", ".join(known)},
    )


SpecLayer = Annotated[LayerDocument | SkipJsonSchema[PluginDocument], WrapValidator(_parse_layer)]
