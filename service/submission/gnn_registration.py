"""Reads and checks a registration form, as far as this needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from d4explain.contracts.defaults import MIB
from d4explain.contracts.gnn_files.gnn_archive import SAMPLES, SPEC, WEIGHTS, GnnArchive
from d4explain.contracts.gnn_files.weights import WeightLimits, check_weights
from d4explain.contracts.gnn_spec import BlackBoxSpecDocument, GnnSpecDocument, parse_spec
from d4explain.contracts.plugins import BLACK_BOX
from d4explain.contracts.requests import ProbeRequest
from service import examples
from service.graph_io.sample_reader import probe_request
from service.http.bodies import FormParts, form_body
from service.http.faults import Fault, Faults, InvalidRequestError, faults_of, reject
from service.http.json_bodies import MalformedJsonError, parse_json
from service.http.openapi import schema_of
from service.metadata_models import METADATA
from service.schemas import Description, RequestWebhookIn, ResourceName, SamplesIn, Tags
from service.submission.request_webhooks import checked_webhook
from store.catalogue.black_boxes import check_black_box_url
from store.catalogue.gnn_labels import MAX_TAGS
from store.settings import Settings
from store.webhooks.endpoints import RequestWebhook

_NAME: TypeAdapter[str] = TypeAdapter(ResourceName)
_DESCRIPTION: TypeAdapter[str] = TypeAdapter(Description)
_TAGS: TypeAdapter[dict[str, str]] = TypeAdapter(Tags)
_WEBHOOK: TypeAdapter[RequestWebhookIn] = TypeAdapter(RequestWebhookIn)
_LAYER_FIELDS = GnnSpecDocument.model_fields.keys() - BlackBoxSpecDocument.model_fields.keys()
_BINARY = {"type": "string", "format": "binary"}

FORM: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["name"],
                "anyOf": [
                    {"required": ["spec", "weights"]},
                    {"required": ["archive"]},
                    {"required": ["spec", "predict_url"]},
                ],
                "additionalProperties": False,
                "properties": {
                    "name": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 200,
                        "pattern": "^[^@/]+$",
                    },
                    "description": {"type": "string", "maxLength": 2000},
                    "tags": {
                        "type": "object",
                        "maxProperties": MAX_TAGS,
                        "additionalProperties": {"type": "string", "maxLength": 200},
                    },
                    "metadata": METADATA.json_schema(),
                    "spec": {
                        "anyOf": [schema_of(GnnSpecDocument), schema_of(BlackBoxSpecDocument)]
                    },
                    "weights": _BINARY,
                    "archive": _BINARY,
                    "predict_url": {"type": "string", "maxLength": 2000},
                    "samples": schema_of(SamplesIn),
                    "webhook": schema_of(RequestWebhookIn),
                },
            },
            "encoding": {
                "spec": {"contentType": "application/json"},
                "tags": {"contentType": "application/json"},
                "metadata": {"contentType": "application/json"},
                "samples": {"contentType": "application/json"},
                "webhook": {"contentType": "application/json"},
                "weights": {"contentType": "application/octet-stream"},
                "archive": {"contentType": "application/zip"},
            },
            "examples": {
                "spec and weights": {"value": examples.GNN_IN},
                "archive": {"value": examples.ARCHIVE_IN},
                "predict_url": {"value": examples.BLACK_BOX_IN},
            },
        }
    },
}


@dataclass(frozen=True)
class Registration:
    name: str
    description: str | None
    tags: dict[str, str]
    metadata: dict[str, Any]
    spec: GnnSpecDocument
    weights: bytes
    samples: ProbeRequest | None
    webhook: RequestWebhook | None


@dataclass(frozen=True)
class Places:
    """Pointers to the parts of a registration: fields of the form, or files of its archive."""

    spec: str = "/spec"
    weights: str = "/weights"
    samples: str = "/samples"


_OF_BLACK_BOX = Places(weights="/predict_url")
_IN_ARCHIVE = Places(f"/archive/{SPEC}", f"/archive/{WEIGHTS}", f"/archive/{SAMPLES}")


async def registration_form(request: Request) -> FormParts:
    texts = {"name", "description", "tags", "metadata", "spec", "predict_url", "webhook"}
    files = {"weights", "archive", "samples"}
    form = await form_body(request, texts, files, optional=(texts | files) - {"name"})
    faults = Faults()
    given = form.texts.keys() | form.files.keys()
    if "predict_url" in given:
        for name in sorted({"weights", "archive"} & given):
            faults.add(f"/{name}", "must not be given together with `predict_url`")
        if "spec" not in given:
            faults.add("/spec", "is required; it has `features` and `classes`")
    elif "archive" not in given:
        for name in sorted({"spec", "weights"} - given):
            faults.add(f"/{name}", "is required if there is no `archive`")
    in_archive = {"spec", "weights", "samples"} if "archive" in given else set()
    for name in sorted(set() if "predict_url" in given else in_archive & given):
        faults.add(f"/{name}", "must not be given together with `archive`; put it into the archive")
    faults.raise_if_any()
    return form


def places_of(form: FormParts) -> Places:
    if "predict_url" in form.texts:
        return _OF_BLACK_BOX
    return _IN_ARCHIVE if "archive" in form.files else Places()


def read_registration(form: FormParts, settings: Settings) -> Registration:
    """Reads the form and checks all of it; writes nothing."""
    places = places_of(form)
    limits = WeightLimits(settings.max_weights_bytes)
    name = _checked(_NAME, _text(form.texts["name"], "/name"), "/name")
    description, tags = form.texts.get("description"), form.texts.get("tags")
    samples = form.files.get("samples")
    if "predict_url" in form.texts:
        spec, weights = _black_box_spec(form, settings, places.spec), b""
    elif "archive" in form.files:
        archive = GnnArchive(form.files["archive"], "/archive")
        spec = _spec(archive.read(SPEC, MIB), settings, places.spec)
        weights = archive.read(WEIGHTS, limits.file_bytes(spec))
        if archive.has_samples:
            samples = archive.read(SAMPLES, settings.max_body_bytes)
    else:
        spec = _spec(form.texts["spec"], settings, places.spec)
        weights = form.files["weights"]
    if "predict_url" not in form.texts:
        check_weights(weights, spec, limits, places.weights)
    return Registration(
        name=name,
        description=(
            None
            if description is None
            else _checked(_DESCRIPTION, _text(description, "/description"), "/description")
        ),
        tags={} if tags is None else _checked(_TAGS, _json(tags, "/tags"), "/tags"),
        metadata=_metadata(form),
        spec=spec,
        weights=weights,
        samples=None if samples is None else _samples(samples, spec, settings, places.samples),
        webhook=_webhook(form, settings),
    )


def _metadata(form: FormParts) -> dict[str, Any]:
    if "metadata" not in form.texts:
        return {}
    posted = _json(form.texts["metadata"], "/metadata")
    checked: dict[str, Any] = _checked(METADATA, posted, "/metadata")
    return checked


def _webhook(form: FormParts, settings: Settings) -> RequestWebhook | None:
    if "webhook" not in form.texts:
        return None
    posted = _checked(_WEBHOOK, _json(form.texts["webhook"], "/webhook"), "/webhook")
    return checked_webhook(posted, settings)


def _spec(text: bytes, settings: Settings, at: str) -> GnnSpecDocument:
    spec = parse_spec(_json(text, at), max_features=settings.max_features, pointer=at)
    if spec.layers[0].type == BLACK_BOX:
        reject(f"{at}/layers/0", "is a black box; register a GNN behind a URL by `predict_url`")
    return spec


def _black_box_spec(form: FormParts, settings: Settings, at: str) -> GnnSpecDocument:
    """The spec of a black box: its inputs and outputs."""
    url = _text(form.texts["predict_url"], "/predict_url")
    check_black_box_url(url, settings, "/predict_url")
    sent = _json(form.texts["spec"], at)
    if not isinstance(sent, dict):
        reject(at, "should be an object with `features` and `classes`")
    for name in sorted(_LAYER_FIELDS & sent.keys()):
        reject(
            f"{at}/{name}",
            "is for GNNs with weights; a black box classifies graphs and has no layers",
        )
    document = {**sent, "layers": [{"type": BLACK_BOX, "url": url}]}
    return parse_spec(document, max_features=settings.max_features, pointer=at)


def _samples(data: bytes, spec: GnnSpecDocument, settings: Settings, at: str) -> ProbeRequest:
    if len(data) > settings.max_body_bytes:
        most = settings.max_body_bytes
        reject(at, f"has {len(data):,} bytes; this deployment accepts at most {most:,}")
    samples = _checked(TypeAdapter(SamplesIn), _json(data, at), at)
    return probe_request(samples, spec, settings, at)


def _text(data: bytes, at: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        reject(at, "is not UTF-8")


def _json(data: bytes, at: str) -> object:
    try:
        return parse_json(data)
    except MalformedJsonError as error:
        reject(at, f"is not JSON: {error}")
    except InvalidRequestError as error:
        faults = [Fault(f"{at}{fault.at}", fault.detail) for fault in error.faults]
        raise InvalidRequestError(faults) from error


def _checked(adapter: TypeAdapter[Any], value: object, at: str) -> Any:
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as error:
        raise InvalidRequestError(faults_of(error, value, at)) from error
