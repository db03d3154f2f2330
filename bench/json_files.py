"""Write JSON files that are never partial."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_json(file: Path, document: object) -> None:
    """Write to a file beside it, then rename."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(document) + "\n")
    os.replace(partial, file)
