"""Checks that a webhook comes from MLflow, is recent and came only once.

MLflow signs `delivery id.timestamp.body` by HMAC-SHA256, as its `mlflow.webhooks.delivery` does.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

SIGNATURE, TIMESTAMP, DELIVERY = (
    "X-MLflow-Signature",
    "X-MLflow-Timestamp",
    "X-MLflow-Delivery-Id",
)
VERSION = "v1"
TOLERANCE_SECONDS = 300
MIN_SECRET = 16  # characters
_MAX_DELIVERY_ID = 200  # characters; MLflow sends a UUID
_MAX_DELIVERIES = 10_000  # within the tolerance


class Verdict(StrEnum):
    ACCEPTED = "accepted"
    UNSIGNED = "unsigned"  # a header is missing or wrong
    WRONG = "wrong signature"
    OLD = "outside the time tolerance"
    REPEATED = "received before"
    TOO_MANY = "too many deliveries"


def signature(secret: str, delivery: str, timestamp: str, body: bytes) -> str:
    signed = f"{delivery}.{timestamp}.".encode() + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"


class WebhookVerifier:
    """Remembers delivery ids for as long as their timestamps are accepted."""

    def __init__(self, secret: str, now: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._now = now
        self._seen: dict[str, float] = {}  # id → time until which it would be accepted again
        self._lock = threading.Lock()

    def check(self, headers: Mapping[str, str], body: bytes) -> Verdict:
        """`headers` ignores case, as those of HTTP libraries do."""
        sent, timestamp, delivery = (headers.get(n, "") for n in (SIGNATURE, TIMESTAMP, DELIVERY))
        is_number = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12
        if not sent or not is_number or not 0 < len(delivery) <= _MAX_DELIVERY_ID:
            return Verdict.UNSIGNED
        expected = signature(self._secret, delivery, timestamp, body)
        if not hmac.compare_digest(sent.encode(), expected.encode()):
            return Verdict.WRONG
        now = self._now()
        if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
            return Verdict.OLD
        return self._remember(delivery, now, int(timestamp) + TOLERANCE_SECONDS)

    def _remember(self, delivery: str, now: float, until: float) -> Verdict:
        with self._lock:
            if self._seen.get(delivery, 0.0) >= now:
                return Verdict.REPEATED
            if len(self._seen) >= _MAX_DELIVERIES:
                self._seen = {one: end for one, end in self._seen.items() if end >= now}
            if len(self._seen) >= _MAX_DELIVERIES:
                return Verdict.TOO_MANY
            self._seen[delivery] = until
        return Verdict.ACCEPTED
