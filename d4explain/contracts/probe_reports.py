"""Reports of probes, which check a GNN when it is registered."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from d4explain.contracts.results import Document, renamed_field


class ProbeExample(Document):
    """A graph for which a check failed."""

    sample: int | None  # its position among the samples; None if the probe generated it
    graph: str  # "graph 3 of the samples, 17 nodes and 19 edges"
    expected: str
    came_out: str


class ProbeCheck(Document):
    name: str
    passed: bool
    detail: str
    example: ProbeExample | None = None


class SampledClass(Document):
    """Predictions for the samples of one class; a sample is a graph or a node."""

    labelled: int  # samples with this label
    predicted: int  # samples that the GNN assigns to this class
    correct: int


class SampleFigures(Document):
    """The GNN's accuracy on the labelled samples that it was registered with."""

    graph_count: int = renamed_field("graph_count", "graphs")
    # Labelled nodes of these graphs; None if the GNN classifies graphs.
    node_count: int | None = renamed_field("node_count", "nodes", None)
    accuracy: float
    min_accuracy: float
    classes: list[SampledClass]  # one per class of the GNN


class ProbeReport(Document):
    passed: bool
    checks: list[ProbeCheck]
    dense: Literal["present", "absent"] = "present"  # the form of the GNN that has gradients
    samples: SampleFigures | None = None
    warnings: list[str] = Field(
        [],
        description="Names a degenerate GNN: one that passes, but whose explanations say little.",
    )
