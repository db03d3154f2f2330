"""Plots as SVG with their colours in attributes, so that they look alike in HTML and PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.drawing.svg_elements import escaped, shortened

WIDTH = 760
_INK, _MUTED, _GRID = "#1f2328", "#59636e", "#d1d9e0"
# Distinct for people who do not tell colours apart: the dashes differ, too.
_COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#7d4e00", "#a0266d")
_DASHES = ("", "8 4", "2 3", "10 3 2 3")
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 200, 14, 44
_PLOT_HEIGHT = 260
_ROW = 26
_MAX_BARS = 24
_MAX_CLASSES = 8


_Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]  # y between 0 and 1
    is_bound: bool = False  # a limit, drawn grey and thin


def line_plot(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """Lines over a common x axis, with a legend at the right."""
    width, height = WIDTH - _LEFT - _RIGHT, _PLOT_HEIGHT
    top_x = max(x for line in lines for x, _ in line.points) or 1.0
    parts = []
    for step in range(6):
        y = _TOP + height * (1 - step / 5)
        parts += [
            _rule((_LEFT, y), (_LEFT + width, y)),
            _text(_LEFT - 8, y + 4, f"{step / 5:.1f}", "end"),
        ]
        x = _LEFT + width * step / 5
        parts.append(_text(x, _TOP + height + 18, f"{top_x * step / 5:.2f}", "middle"))
    colour_of = 0
    for place, line in enumerate(lines):
        colour, dash = _GRID, "4 4"
        if line.is_bound:
            colour = _MUTED
        else:
            colour = _COLOURS[colour_of % len(_COLOURS)]
            dash = _DASHES[colour_of % len(_DASHES)]
            colour_of += 1
        style = f'stroke="{colour}" stroke-width="{1.4 if line.is_bound else 2.4}"'
        style += f' stroke-dasharray="{dash}"' if dash else ""
        at = [
            (_LEFT + width * x / top_x, _TOP + height * (1 - min(max(y, 0.0), 1.0)))
            for x, y in line.points
        ]
        for (x1, y1), (x2, y2) in pairwise(at):
            parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>')
        y = _TOP + 12 + 22 * place
        left = _LEFT + width + 16
        parts.append(f'<line x1="{left}" y1="{y}" x2="{left + 30}" y2="{y}" {style}/>')
        parts.append(_text(left + 38, y + 4, shortened(line.name, 22), colour=_INK))
    parts.append(_text(_LEFT + width / 2, _TOP + height + 38, x_label, "middle"))
    label = _text(0, 0, y_label, "middle")
    parts.append(f'<g transform="translate(14 {_TOP + height / 2:.0f}) rotate(-90)">{label}</g>')
    return _svg(_TOP + height + _BOTTOM, parts, title)


def histogram(counts: Mapping[int, int], *, title: str, x_label: str) -> str:
    """One bar per number; the last one gathers what does not fit."""
    shown = dict(sorted(counts.items()))
    numbers = list(shown)
    bars = [(str(number), shown[number]) for number in numbers[:_MAX_BARS]]
    if len(numbers) > _MAX_BARS:
        bars.append((f"{numbers[_MAX_BARS]}+", sum(shown[n] for n in numbers[_MAX_BARS:])))
    height, width = 150, WIDTH - _LEFT - 24
    highest = max((count for _, count in bars), default=1)
    step = min(width / max(len(bars), 1), 64)
    parts = [_rule((_LEFT, _TOP + 14 + height), (_LEFT + width, _TOP + 14 + height))]
    for place, (name, count) in enumerate(bars):
        x, tall = _LEFT + step * (place + 0.1), height * count / highest
        y = _TOP + 14 + height - tall
        parts.append(_bar(x, y, step * 0.8, tall, _COLOURS[0]))
        parts.append(_text(x + step * 0.4, y - 4, str(count), "middle", colour=_INK))
        parts.append(_text(x + step * 0.4, _TOP + height + 32, name, "middle"))
    parts.append(_text(_LEFT, _TOP + height + 54, x_label))
    return _svg(_TOP + height + 64, parts, title)


def matrix(
    names: Sequence[str], counts: Mapping[tuple[int, int], int], *, title: str
) -> str | None:
    """Counts by row and column; None if there are too many classes for a picture."""
    if len(names) > _MAX_CLASSES:
        return None
    left, top, cell, tall = 200, 52, min(110, (WIDTH - 220) // max(len(names), 1)), 40
    highest = max(counts.values(), default=1)
    parts = [_text(left - 10, top - 10, "before \\ after", "end")]
    for place, name in enumerate(names):
        label = shortened(name, max(cell // 8, 3))
        parts.append(_text(left + cell * (place + 0.5), top - 10, label, "middle", colour=_INK))
        parts.append(
            _text(left - 10, top + tall * (place + 0.6), shortened(name, 24), "end", colour=_INK)
        )
    for old in range(len(names)):
        for new in range(len(names)):
            count = counts.get((old, new), 0)
            share = count / highest
            x, y = left + cell * new, top + tall * old
            fill = "#f3f5f7" if old == new else _tint(share)
            parts.append(_bar(x + 1, y + 1, cell - 2, tall - 2, fill))
            ink = "#ffffff" if share > 0.6 and old != new else _INK
            text = "–" if old == new else str(count)  # noqa: RUF001
            parts.append(_text(x + cell / 2, y + tall * 0.6, text, "middle", colour=ink))
    return _svg(top + tall * len(names) + 12, parts, title)


@dataclass(frozen=True)
class Bar:
    name: str
    share: float
    base_share: float | None  # marked by a line
    count: int


def shares_plot(bars: Sequence[Bar], *, title: str) -> str:
    """Horizontal bars of shares, with a mark for what is usual in the data."""
    left, width = 330, WIDTH - 330 - 110
    parts = []
    for place, bar in enumerate(bars):
        y = _TOP + _ROW * place
        parts.append(_text(left - 10, y + 14, shortened(bar.name, 46), "end", colour=_INK))
        parts.append(_bar(left, y + 2, width, 16, "#eff2f5"))
        parts.append(_bar(left, y + 2, width * min(bar.share, 1.0), 16, _COLOURS[0]))
        if bar.base_share is not None:
            x = left + width * min(bar.base_share, 1.0)
            parts.append(_rule((x, y - 1), (x, y + 21), _COLOURS[1], 3))
        parts.append(_text(left + width + 10, y + 14, f"{bar.share:.0%} ({bar.count})"))
    y = _TOP + _ROW * len(bars) + 14
    parts.append(_rule((left, y - 8), (left, y + 6), _COLOURS[1], 3))
    parts.append(_text(left + 10, y + 4, "share of this kind among all possible edits"))
    return _svg(y + 16, parts, title)


def _tint(share: float) -> str:
    """From white to blue."""
    low, high = (234, 242, 252), (9, 105, 218)
    mixed = [round(a + (b - a) * share) for a, b in zip(low, high, strict=True)]
    return f"#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x}"


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}" fill="{fill}"/>'
    )


def _rule(start: _Point, end: _Point, colour: str = _GRID, width: float = 1) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = _MUTED) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="12.5" fill="{colour}" '
        f'text-anchor="{anchor}">{escaped(text)}</text>'
    )


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escaped(title)}">'
        f"{''.join(parts)}</svg>"
    )
