"""What a package needs to bring layers or whole GNNs of its own: see docs/plugins.md."""

from d4explain.contracts.plugins import ArchitecturePlugin, Fields, LayerPlugin, TensorShape

__all__ = ["ArchitecturePlugin", "Fields", "LayerPlugin", "TensorShape"]
