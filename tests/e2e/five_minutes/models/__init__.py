"""The models of a training repository; the server of d4explain has a package of this name, too."""

from models.mutag_net import MutagNet

__all__ = ["MutagNet"]
