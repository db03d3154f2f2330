"""Converts a trained PyG model to a spec and weights that the API accepts."""

from d4explain.export.convolutions import GinAround, GinSum
from d4explain.export.exporter import Chain, Exported, export
from d4explain.export.layers import Jump

__all__ = ["Chain", "Exported", "GinAround", "GinSum", "Jump", "export"]
