"""Reads JSON bodies strictly and reports faults as the API does."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from d4explain.contracts import strict_json
from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.strict_json import MalformedJsonError
from service.http.faults import Fault, InvalidRequestError, faults_of

__all__ = ["MalformedJsonError", "parse_json", "parse_model"]

Model = TypeVar("Model", bound=BaseModel)


def parse_json(body: bytes) -> object:
    """Parses the body; raises `MalformedJsonError`, or `InvalidRequestError` with pointers."""
    try:
        return strict_json.parse_json(body)
    except InvalidInput as error:
        faults = [Fault(fault.pointer, fault.detail) for fault in error.faults]
        raise InvalidRequestError(faults) from error


def parse_model(body: bytes, model: type[Model]) -> Model:
    """The body as a strict model: no coercion, no unknown fields."""
    document = parse_json(body)
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        faults = faults_of(error, document, known_fields=_fields(model))
        raise InvalidRequestError(faults) from error


@lru_cache(maxsize=32)
def _fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of all fields in bodies of this model, at any depth."""
    schema = model.model_json_schema()
    objects = [schema, *schema.get("$defs", {}).values()]
    return tuple(sorted({name for one in objects for name in one.get("properties", {})}))
