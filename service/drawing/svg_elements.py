"""SVG elements as text; every text is escaped."""

from __future__ import annotations

from xml.sax.saxutils import escape


def text_element(
    x: float,
    y: float,
    text: str,
    style: str,
    size: float,
    *,
    anchor: str = "start",
    weight: int | None = None,
) -> str:
    font_weight = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" '
        f'text-anchor="{anchor}"{font_weight}>{escaped(text)}</text>'
    )


def bar_element(x: float, y: float, width: float, style: str, height: float) -> str:
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" '
        f'height="{height}" rx="2"/>'
    )


def shortened(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def escaped(text: str) -> str:
    """Escapes the text and replaces characters that XML cannot contain."""
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(printable, {'"': "&quot;"})
