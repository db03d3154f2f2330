"""Results of evaluations; the worker writes them, service and client read them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.evaluations.requests import EvaluatedSet, Metric, Noise
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.results import Document, Mmd


class Figure(Document):
    """A mean or share over instances, with its 95 % bootstrap interval over instances."""

    value: float
    low: float
    high: float
    count: int = Field(description="Instances that it is about.")


class Interval(Document):
    """A figure of which only value and interval are known."""

    value: float
    low: float
    high: float


class CurvePoint(Document):
    ratio: float = Field(description="Modification ratio, 0 to 0.3.")
    strict: float = Field(description="Share of instances with an answer of at most this ratio.")
    one_edit: float = Field(description="The same if one edit is always allowed.")
    ceiling: float = Field(description="`strict` if one edit always flipped the GNN.")
    fidelity: float = Field(description="Mean fidelity of these answers; none counts as 0.")


class Flip(Document):
    old_class: int
    new_class: int
    count: int


class ClassFigures(Document):
    predicted_class: int
    class_name: str | None
    validity: Figure


class TypedEdit(Document):
    action: Literal["add", "remove"]
    types: tuple[str, str] = Field(description="Node types of both ends.")


class RecurringEdit(Document):
    """A pattern of edits that several answers contain."""

    edits: list[TypedEdit] = Field(description="One edit, or two that share a node.")
    shared_type: str | None = Field(description="Type of the node that two edits share.")
    instances: int
    share: float = Field(description="Of the answers, 0 to 1.")
    base_share: float | None = Field(
        description="For one removed edge: the share of all edges between these types; for an "
        "added one: of all absent pairs. Null for two edits."
    )


class Distinguishability(Document):
    """C2ST: how well a classifier tells answers from their originals; 0.5 if it cannot."""

    auc: float
    low: float
    high: float
    pairs: int
    constant_folds: int = Field(description="Folds whose classifier learned nothing.")


NullableFigure = Annotated[Figure | None, Field(description="Null if it was not measured.")]


class ExplainerResult(Document):
    """The figures of one explainer over all instances."""

    explainer: str
    validity: Figure = Field(description="Share of instances with a verified counterfactual.")
    one_edit_share: Figure = Field(description="Share of instances that one edit flips.")
    cf_acc_auc: Figure = Field(description="Area under the strict CF-ACC curve, over 0.3.")
    ceiling: float = Field(description="That area if one edit always flipped the GNN.")
    of_ceiling: NullableFigure = Field(description="`cf_acc_auc` over `ceiling`.")
    cf_acc_auc_one_edit: Figure = Field(description="The area if one edit is always allowed.")
    fidelity_auc: Figure = Field(description="Area under the fidelity curve, over 0.3.")
    fidelity: NullableFigure = Field(description="Mean over the answers.")
    edits: NullableFigure = Field(description="Mean number over the answers.")
    modification_ratio: NullableFigure = Field(description="Mean over the answers.")
    connected: NullableFigure = Field(description="Share of connected edited graphs.")
    answers: Figure = Field(description="Mean number of answers per instance.")
    diversity: NullableFigure = Field(description="Mean Jaccard distance of alternatives.")
    brittle_share: NullableFigure = Field(description="Brittle answers over judged answers.")
    na: Interval | None = Field(description="Of the flips, the share that a judge shares.")
    nafr: Interval | None = Field(description="Of all instances, the share of shared flips.")
    verdicts: dict[str, int] = Field(description="Answers by verdict.")
    typicality_before: NullableFigure
    typicality: NullableFigure = Field(description="Mean typicality of the answers.")
    low_typicality_before: NullableFigure = Field(description="Share of originals below 0.05.")
    low_typicality: NullableFigure = Field(description="Share of answers below 0.05.")
    robustness_before: NullableFigure
    robustness: NullableFigure
    stability: NullableFigure
    mmd: Mmd | None = Field(description="Answers against the reference set, with its null.")
    mmd_before: Mmd | None = Field(description="The originals of these answers, likewise.")
    c2st: Distinguishability | None
    gnn_evaluations: Figure = Field(description="Mean per instance.")
    gnn_gradients: Figure = Field(description="Mean per instance.")
    cpu_seconds: Figure = Field(description="Mean per instance; another run changes it.")
    seconds: Figure = Field(description="Mean per instance; another run changes it.")
    curve: list[CurvePoint]
    edit_histogram: dict[str, int] = Field(description="Answers by number of edits.")
    flips: list[Flip] = Field(description="Answers by class before and after.")
    classes: list[ClassFigures] = Field(description="Validity by class before.")
    recurring_edits: list[RecurringEdit]


class EvaluationResult(Document):
    """The figures of an evaluation."""

    instances: int
    test: EvaluatedSet
    metrics: list[Metric]
    predicted_classes: dict[str, int] = Field(description="Instances by the GNN's class.")
    class_names: dict[str, str]
    accuracy: Figure | None = Field(description="Against the test set's labels; null without.")
    explainers: list[ExplainerResult]
    judges: list[Judge]
    unjudged_reason: str | None
    rows_sha256: str = Field(description="Hash of all rows without their times.")
    receipt: Receipt
    warnings: list[str]


class Moved(Document):
    """One figure of a comparison."""

    figure: str
    baseline: float
    candidate: float
    difference: float = Field(description="Candidate minus what is expected.")
    expected: float = Field(
        description="The baseline, or the mean of the trainings if their noise is measured."
    )
    low: float = Field(description="95 % bootstrap interval of candidate minus baseline.")
    high: float
    effect: float | None = Field(
        description="Difference over the standard deviation of trainings, or of the paired "
        "differences of instances. Null if these are all equal."
    )
    deviation: float | None = Field(description="Standard deviation of trainings; null if unknown.")
    p_value: float
    corrected_p_value: float = Field(description="By Holm, over all figures.")
    moved: bool = Field(description="Whether the corrected p value is below `alpha`.")
    worse: bool | None = Field(
        description="Whether it moved to the worse side. Null if it has no worse side."
    )
    instances: int


class ComparisonResult(Document):
    """What moved between two evaluations beyond noise."""

    noise: Noise = Field(
        description="`retraining`: the spread of retrained GNNs. `instances`: only which graphs "
        "were drawn; another training of the same GNN may then count as moved."
    )
    baseline_explainer: str = Field(description="Whose answers of the baseline were compared.")
    candidate_explainer: str = Field(description="Whose answers of the candidate were compared.")
    retrained: list[str] = Field(
        description="Ids of the evaluations whose spread is the noise of retraining."
    )
    trainings: int = Field(description="GNNs whose spread is the noise; 1 without retrained ones.")
    alpha: float
    instances: int = Field(description="Graphs that both evaluations have.")
    agreement: float | None = Field(
        description="Share of these graphs with one class by both GNNs; null if it is one GNN."
    )
    figures: list[Moved]
    moved: list[str]
    worse: list[str]
    warnings: list[str]
