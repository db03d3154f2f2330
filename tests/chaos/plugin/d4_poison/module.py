"""The module of the layer; only workers import it."""

import os
import signal

from torch import Tensor, nn

from d4_poison import DEADLY_VALUE, NoFields


class Poison(nn.Module):
    """Returns its input, unless a value is deadly."""

    def __init__(self, fields: NoFields, width: int) -> None:
        super().__init__()

    def forward(self, values: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        if bool((values == DEADLY_VALUE).any()):
            os.kill(os.getpid(), signal.SIGKILL)
        return values
