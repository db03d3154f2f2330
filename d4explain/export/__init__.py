"""Converts a trained PyG model to a spec and weights that the API accepts."""

from d4explain.export.exporter import Exported, export

__all__ = ["Exported", "export"]
