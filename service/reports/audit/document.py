"""The content of an audit report: sections of blocks, and figures with their intervals.

HTML, PDF and JSON all come from this content, so they cannot say different things.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

CYCLONEDX_VERSION = "1.6"  # the first with model cards is 1.5


class ReportFormat(StrEnum):
    """The files of a report."""

    HTML = "html"
    JSON = "json"
    CSV = "csv"
    PDF = "pdf"
    CYCLONEDX = "cyclonedx"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Paragraph(Part):
    """One paragraph of plain text."""

    kind: Literal["paragraph"] = "paragraph"
    text: str = Field(description="Plain text.")


class Bullets(Part):
    """A list of sentences."""

    kind: Literal["bullets"] = "bullets"
    items: list[str] = Field(description="One text per item.")


class Table(Part):
    """A table of texts."""

    kind: Literal["table"] = "table"
    title: str = Field(description="What the table shows.")
    header: list[str] = Field(description="Names of the columns.")
    rows: list[list[str]] = Field(description="Cells, in the order of the columns.")


class Picture(Part):
    """A drawing or a plot."""

    kind: Literal["picture"] = "picture"
    title: str = Field(description="What the picture shows.")
    text: str = Field(description="How to read it, and what it says.")
    svg: str = Field(description="The picture as one SVG element without foreign files.")


class SignOff(Part):
    """Lines that a person fills in by hand."""

    kind: Literal["sign_off"] = "sign_off"
    fields: list[str] = Field(description="What belongs on each line.")


Block = Annotated[
    Paragraph | Bullets | Table | Picture | SignOff,
    Field(discriminator="kind"),
]


class Section(Part):
    """A numbered part of the report."""

    title: str = Field(description="Title, without its number.")
    blocks: list[Block] = Field(description="In the order of the page.")


class ReportFigure(Part):
    """One figure with its interval and its number of observations."""

    figure: str = Field(description="Name of the figure, as in the evaluation's result.")
    meaning: str = Field(description="What it says, in plain words.")
    explainer: str | None = Field(description="The explainer; null for figures of the GNN alone.")
    slice: str | None = Field(description="The part of the test set; null for all of it.")
    value: float | None = Field(description="Null if it was not measured.")
    low: float | None = Field(description="Lower end of the 95 % interval; null without one.")
    high: float | None = Field(description="Upper end of the 95 % interval; null without one.")
    count: int | None = Field(description="Observations that it is about; null if none.")
    note: str = Field(description="Why it was not measured, or what its scale is; may be empty.")


class AuditReport(Part):
    """The audit report of one evaluation."""

    evaluation: str = Field(description="Id of the evaluation.")
    title: str = Field(description="Title of the report.")
    evaluated_at: str = Field(description="When the evaluation was asked for.")
    written_at: str = Field(description="When this report was written from the stored figures.")
    result_sha256: str = Field(description="SHA-256 of the stored figures of the evaluation.")
    summary: list[str] = Field(description="The main findings, one sentence each.")
    sections: list[Section] = Field(description="In the order of the page.")
    figures: list[ReportFigure] = Field(description="Every figure of the report.")


def minute(time: str) -> str:
    """A time of the API, for people."""
    return f"{time[:10]} {time[11:16]} UTC"
