"""The interface for packages that add layers or whole GNNs; see docs/plugins.md."""

from d4explain.contracts.plugins import ArchitecturePlugin, Fields, LayerPlugin, TensorShape

__all__ = ["ArchitecturePlugin", "Fields", "LayerPlugin", "TensorShape"]
