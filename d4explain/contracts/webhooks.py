"""Events, deliveries and failures of webhooks, as they appear in the API."""

from __future__ import annotations

from enum import StrEnum


class WebhookEvent(StrEnum):
    """The end of an explanation, evaluation or comparison, or of a job of another kind."""

    EXPLANATION_SUCCEEDED = "explanation.succeeded"
    EXPLANATION_FAILED = "explanation.failed"
    EXPLANATION_CANCELED = "explanation.canceled"
    EXPLANATION_EXPIRED = "explanation.expired"
    EVALUATION_SUCCEEDED = "evaluation.succeeded"
    EVALUATION_FAILED = "evaluation.failed"
    EVALUATION_CANCELED = "evaluation.canceled"
    EVALUATION_EXPIRED = "evaluation.expired"
    COMPARISON_SUCCEEDED = "comparison.succeeded"
    COMPARISON_FAILED = "comparison.failed"
    COMPARISON_CANCELED = "comparison.canceled"
    COMPARISON_EXPIRED = "comparison.expired"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELED = "job.canceled"
    JOB_EXPIRED = "job.expired"


class DeliveryState(StrEnum):
    PENDING = "pending"  # not sent yet, or to be sent again
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class SendFailure(StrEnum):
    """Why a request to a user's URL did not succeed."""

    FORBIDDEN_URL = "forbidden_url"  # the settings do not allow it
    FORBIDDEN_ADDRESS = "forbidden_address"  # the host has an address that is not public
    UNKNOWN_HOST = "unknown_host"
    CONNECTION = "connection"
    CERTIFICATE = "certificate"  # it is not trusted
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"  # the answer is not HTTP
    STATUS = "status"  # a status other than 2xx
    INTERNAL = "internal"  # an error of the worker, which its log shows
