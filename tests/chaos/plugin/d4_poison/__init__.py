"""Describes a layer that kills its process, as a graph that exhausts the memory would."""

from d4explain.plugins import Fields, LayerPlugin

DEADLY_VALUE = 1313.25  # of a node feature


class NoFields(Fields):
    pass


poison = LayerPlugin(
    fields=NoFields,
    module="d4_poison.module:Poison",
    width=lambda _, width: width,
    tensors=lambda *_: {},
)
