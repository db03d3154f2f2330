"""A GNN as a JSON document: its layers, sizes and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from d4explain.contracts.errors import Fault, InvalidInput, pointer
from d4explain.contracts.features.feature_schema import FeatureSchemaDocument
from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.spec_checks.layer_types import STORED, SpecLayer
from d4explain.contracts.spec_checks.structure import structure_faults
from d4explain.contracts.spec_checks.supported import REGRESSION, UNSUPPORTED_FIELDS, task_fault
from d4explain.contracts.vocabulary.spec_model import SpecModel

MAX_LAYERS = 256
MAX_FEATURES = 65_536  # in any deployment; settings.max_features is the limit of one
MAX_EDGE_FEATURES = 64  # of one edge; they are stored for every pair of nodes
MIN_CLASSES, MAX_CLASSES = 2, 256

# Printable, so that names can be shown, logged and stored anywhere.
ClassName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class GnnSpecDocument(SpecModel):
    """A graph classifier: convolutions, pools, then a head that returns one logit per class.

    A layer reads the one before it, or the values that its `inputs` name.

    With the `task` `node` it classifies nodes: it has no pool and returns the classes of every
    node. With the `head` `binary` it returns one value z for two classes; their logits are 0 and z.
    """

    task: Literal["graph", "node"] = "graph"
    head: Literal["softmax", "binary"] = "softmax"
    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    classes: Annotated[int, Field(ge=MIN_CLASSES, le=MAX_CLASSES)]
    layers: Annotated[list[SpecLayer], Field(min_length=1, max_length=MAX_LAYERS)]
    class_names: list[ClassName] | None = None
    feature_schema: FeatureSchemaDocument | None = None
    featuriser: SmilesFeaturiser | None = None
    # Omitted if 0, so that the hashes of GNNs registered before this field existed stay valid.
    edge_features: Annotated[int, Field(ge=0, le=MAX_EDGE_FEATURES)] = Field(
        0,
        description="Numbers per edge, for GNNs with layers that read them.",
        exclude_if=lambda count: count == 0,
    )

    @model_validator(mode="after")
    def _check_structure(self) -> Self:
        for fault in structure_faults(self):
            raise PydanticCustomError(
                "structure", "{detail}", {"detail": fault.detail, "pointer": fault.pointer}
            )
        return self


class BlackBoxSpecDocument(SpecModel):
    """Inputs and outputs of a GNN that workers query at a URL; its layers are unknown."""

    features: Annotated[int, Field(ge=1, le=MAX_FEATURES)]
    classes: Annotated[int, Field(ge=MIN_CLASSES, le=MAX_CLASSES)]
    class_names: list[ClassName] | None = None
    feature_schema: FeatureSchemaDocument | None = None
    featuriser: SmilesFeaturiser | None = None


def stored_spec(document: object) -> GnnSpecDocument:
    """A spec that was accepted before; its plug-ins need not be installed any more."""
    return GnnSpecDocument.model_validate(document, context=STORED)


def parse_spec(
    document: object, *, max_features: int = MAX_FEATURES, pointer: str = ""
) -> GnnSpecDocument:
    """Validates a parsed JSON document; raises InvalidInput with the place of each fault."""
    try:
        spec = GnnSpecDocument.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[:20]
        faults = [_fault(detail, document, pointer) for detail in details]
        message = f"{faults[0].pointer or '/'}: {faults[0].detail}"
        raise InvalidInput(message, faults[0].pointer, faults=faults) from None
    if spec.features > max_features:
        raise InvalidInput(
            f"features is {spec.features}; this deployment accepts at most {max_features}",
            f"{pointer}/features",
            allowed=max_features,
        )
    return spec


def _fault(detail: ErrorDetails, document: object, prefix: str) -> Fault:
    if detail["type"] == "structure":
        return Fault(f"{prefix}{detail['ctx']['pointer']}", detail["msg"])
    place, value = _locate(detail["loc"], document)
    reason = _why_unsupported(detail, place, value)
    return Fault(f"{prefix}{pointer(*place)}", f"{detail['msg']}{_sent(value)}{reason}")


def _why_unsupported(detail: ErrorDetails, place: Sequence[int | str], value: object) -> str:
    """Says what is supported if the spec is that of another task or kind of graph."""
    reason = None
    if place == ["task"]:
        reason = task_fault(value)
    elif place == ["classes"] and value == 1:
        reason = (
            f"{REGRESSION}. For a binary classifier with one output, give 2 classes and the head "
            "'binary'"
        )
    elif detail["type"] == "extra_forbidden" and len(place) == 1:
        reason = UNSUPPORTED_FIELDS.get(str(place[0]))
    return "" if reason is None else f"; {reason}"


def _locate(loc: Sequence[int | str], document: object) -> tuple[list[int | str], object]:
    """The place of a Pydantic error in the document, and the value there.

    Pydantic's location also names the branch of a union, which is not part of the document.
    """
    place: list[int | str] = []
    value: Any = document
    for position, part in enumerate(loc):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            if position < len(loc) - 1:
                continue
            value = None  # a missing field
        place.append(part)
    return place, value


def _sent(value: object) -> str:
    """Repeats short plain values to the sender; echoes nothing else."""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**12):
        return f" (sent: {value})"
    if isinstance(value, str) and len(value) <= 40:
        return f" (sent: {value!r})"
    return ""
