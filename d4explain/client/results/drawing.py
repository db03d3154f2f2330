"""A drawing of one graph of an explanation."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, repr=False)
class Drawing:
    """An SVG image; notebooks show it."""

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the SVG file."""
        file = Path(path)
        file.write_text(self.svg, encoding="utf-8")
        return file

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Drawing({len(self.svg):,} characters of SVG)"

    def html(self) -> str:
        """An image element: its own document, so that its styles do not reach the page."""
        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<img alt="drawing of the explanation" src="data:image/svg+xml;base64,{data}" '
            'style="max-width:100%"/>'
        )
