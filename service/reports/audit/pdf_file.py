"""The audit report as PDF, by fpdf2: pure Python, so that it installs wherever the service does."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any

from service.http.problems import ProblemError
from service.reports.audit.document import (
    AuditReport,
    Block,
    Bullets,
    Paragraph,
    Picture,
    Section,
    SignOff,
    Table,
    minute,
)

_MARGIN = 16.0  # mm
_WIDTH = 210.0 - 2 * _MARGIN
_PICTURE_WIDTH = 150.0
_INK, _QUIET, _LINE = (31, 35, 40), (89, 99, 110), (209, 217, 224)
_SIZE = re.compile(r'<svg[^>]* width="([0-9.]+)" height="([0-9.]+)"')
_TITLES = re.compile(r"<(title|desc)>.*?</\1>", re.DOTALL)
# The built-in fonts of PDF have the characters of Windows-1252 only.
_ENCODING = "cp1252"
_WRITTEN = str.maketrans({"→": "->", "≥": ">=", "≤": "<=", "−": "-"})  # noqa: RUF001


def pdf_file(report: AuditReport) -> bytes:
    """Raises a problem that says what to install if fpdf2 is missing."""
    pages = _Pages(_fpdf(), report)
    pages.write()
    return bytes(pages.pdf.output())


def _fpdf() -> Any:
    """Imported for the first PDF: it takes 50 MB, which other requests do not need."""
    try:
        import fpdf  # noqa: PLC0415
    except ImportError:
        raise ProblemError(
            HTTPStatus.NOT_IMPLEMENTED,
            "not-installed",
            "PDF reports need fpdf2, which is not installed here: pip install 'd4explain[pdf]'. "
            "format=html gives the same report.",
        ) from None
    return fpdf


class _Pages:
    def __init__(self, fpdf: Any, report: AuditReport) -> None:
        self._report = report
        self._replaced = 0
        footer = self._text(f"{report.title}, {report.evaluation}")

        class Document(fpdf.FPDF):  # type: ignore[misc]
            def footer(self) -> None:
                self.set_y(-12)
                self.set_font("Helvetica", size=8)
                self.set_text_color(*_QUIET)
                self.cell(_WIDTH / 2, 5, footer)
                self.cell(_WIDTH / 2, 5, f"page {self.page_no()} of {{nb}}", align="R")

        self.pdf: Any = Document(format="A4")
        self.pdf.core_fonts_encoding = _ENCODING
        self.pdf.set_margins(_MARGIN, _MARGIN, _MARGIN)
        self.pdf.set_auto_page_break(True, margin=18)
        self.pdf.set_title(self._text(report.title))
        self.pdf.set_lang("en")
        self.pdf.set_creation_date(datetime.fromisoformat(report.written_at))
        self._grey_line = fpdf.FontFace(emphasis="BOLD", color=_QUIET)

    def write(self) -> None:
        report = self._report
        self.pdf.add_page()
        self._lines(report.title, size=18, style="B")
        self._lines(
            f"Evaluation {report.evaluation}, asked for {minute(report.evaluated_at)}. This report "
            f"was written {minute(report.written_at)} from the stored figures.",
            colour=_QUIET,
        )
        self.pdf.ln(3)
        for line in report.summary:
            self._lines(line)
            self.pdf.ln(1)
        for number, section in enumerate(report.sections, 1):
            self._keep_together(_least_height(section))
            self.pdf.ln(6)
            self.pdf.set_draw_color(*_INK)
            y = self.pdf.get_y()
            self.pdf.line(_MARGIN, y, _MARGIN + _WIDTH, y)
            self.pdf.ln(2)
            self.pdf.start_section(self._text(f"{number}. {section.title}"))
            self._lines(f"{number}. {section.title}", size=14, style="B")
            self.pdf.ln(1)
            for block in section.blocks:
                self._block(block)
        if self._replaced:
            self.pdf.ln(4)
            self._lines(
                f"{self._replaced} characters that the fonts of this PDF lack are shown as ?. The "
                "HTML file has them.",
                colour=_QUIET,
            )

    def _block(self, block: Block) -> None:
        match block:
            case Paragraph():
                self._lines(block.text)
                self.pdf.ln(2)
            case Bullets():
                for item in block.items:
                    self._bullet(item)
                self.pdf.ln(1)
            case Table():
                self._table(block)
            case Picture():
                self._picture(block)
            case SignOff():
                self._sign_off(block)

    def _bullet(self, text: str) -> None:
        self.pdf.set_x(_MARGIN + 1)
        self._font()
        self.pdf.cell(4, 5, "•")
        self._lines(text, left=_MARGIN + 5)

    def _table(self, table: Table) -> None:
        self._keep_together(24)
        self.pdf.ln(2)
        self._lines(table.title, style="B")
        has_header = any(table.header)
        rows = [*([table.header] if has_header else []), *table.rows]
        self._font(size=8.5)
        self.pdf.set_draw_color(*_LINE)
        with self.pdf.table(
            width=_WIDTH,
            col_widths=_column_widths(rows),
            text_align="LEFT",
            borders_layout="HORIZONTAL_LINES",
            first_row_as_headings=has_header,
            headings_style=self._grey_line,
            line_height=4.4,
            padding=(0.6, 1.5, 0.6, 0),
        ) as shown:
            for row in rows:
                cells = shown.row()
                for cell in row:
                    cells.cell(self._text(cell))
        self.pdf.ln(2)

    def _picture(self, picture: Picture) -> None:
        size = _SIZE.search(picture.svg)
        assert size is not None  # the service wrote it
        height = _PICTURE_WIDTH * float(size[2]) / float(size[1])
        self._keep_together(height + 24)
        self.pdf.ln(2)
        self._lines(picture.title, style="B")
        self._lines(picture.text)
        self.pdf.ln(1)
        self.pdf.image(io.BytesIO(self._svg(picture.svg)), w=_PICTURE_WIDTH, alt_text=picture.title)
        self.pdf.ln(3)

    def _sign_off(self, block: SignOff) -> None:
        for place, field in enumerate(block.fields):
            if place % 2 == 0:
                self._keep_together(22)
                self.pdf.ln(16)
            x = _MARGIN + (place % 2) * (_WIDTH / 2 + 4)
            y = self.pdf.get_y()
            self.pdf.set_draw_color(*_INK)
            self.pdf.line(x, y, x + _WIDTH / 2 - 4, y)
            self.pdf.set_xy(x, y + 1)
            self._font(colour=_QUIET)
            self.pdf.cell(_WIDTH / 2 - 4, 5, self._text(field))
            self.pdf.set_xy(_MARGIN, y)
        self.pdf.ln(8)

    def _lines(
        self,
        text: str,
        *,
        size: float = 10,
        style: str = "",
        colour: tuple[int, int, int] = _INK,
        left: float = _MARGIN,
    ) -> None:
        self._font(size, style, colour)
        self.pdf.set_x(left)
        self.pdf.multi_cell(
            _WIDTH + _MARGIN - left,
            size * 0.5,
            self._text(text),
            align="L",
            new_x="LMARGIN",
            new_y="NEXT",
        )

    def _font(self, size: float = 10, style: str = "", colour: tuple[int, int, int] = _INK) -> None:
        self.pdf.set_font("Helvetica", style=style, size=size)
        self.pdf.set_text_color(*colour)

    def _keep_together(self, height: float) -> None:
        if self.pdf.get_y() + height > 297 - 18:
            self.pdf.add_page()

    def _text(self, text: str) -> str:
        known = text.translate(_WRITTEN)
        readable = known.encode(_ENCODING, "replace").decode(_ENCODING)
        self._replaced += sum(a != b for a, b in zip(known, readable, strict=True))
        return readable

    def _svg(self, svg: str) -> bytes:
        """What fpdf2 reads: no tooltips, no inherited colours and no outlines of letters."""
        plain = _TITLES.sub("", svg).replace("currentColor", "#1f2328")
        plain = plain.replace("fill:transparent", "fill:none")
        plain = plain.replace("stroke:#ffffff;stroke-width:3;paint-order:stroke", "")
        # fpdf2 takes letters of drawings by their code in the font.
        return self._text(plain).encode(_ENCODING).decode("latin-1").encode()


def _least_height(section: Section) -> float:
    """The heading with some text, or with all lines to sign."""
    lines = sum(len(block.fields) for block in section.blocks if isinstance(block, SignOff))
    return 30.0 + 18.0 * ((lines + 1) // 2)


def _column_widths(rows: Sequence[Sequence[str]]) -> list[float]:
    """Wider for columns with longer texts, within bounds that keep short ones readable."""
    columns = list(zip(*rows, strict=True))
    words = [
        max(len(word) for cell in column for word in (cell or " ").split(" ")) for column in columns
    ]
    longest = [max(len(cell) for cell in column) for column in columns]
    return [
        float(min(max(length**0.75, min(word, 24), 5), 34))
        for word, length in zip(words, longest, strict=True)
    ]
