"""The progress callback that every benchmark takes."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]  # label, steps done, total steps
