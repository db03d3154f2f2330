"""One attempt to deliver a notification, signed as Standard Webhooks describes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.webhooks import SendFailure
from store import tracing
from store.outgoing_urls import check_url
from store.webhooks.deliveries import AttemptResult, ClaimedDelivery
from worker.outgoing.pinned_requests import Sender, SendError

log = logging.getLogger(__name__)

SEND_SECONDS = 5.0


async def attempt_delivery(sender: Sender, delivery: ClaimedDelivery) -> AttemptResult:
    """Sends it once; never raises, because the other notifications must go on."""
    started = time.monotonic()
    status, failure = None, None
    span = tracing.start(
        "webhook",
        kind="CLIENT",
        parent=delivery.origin.traceparent,
        attributes={
            "d4.delivery.id": delivery.id,
            "d4.delivery.attempt": delivery.attempt,
            "d4.job.id": delivery.job_id,
            "d4.request_id": delivery.origin.request_id,
        },
    )
    try:
        status = await _send(sender, delivery, span.traceparent or delivery.origin.traceparent)
        if not 200 <= status < 300:
            failure = SendFailure.STATUS
    except InvalidInput:  # the settings have changed since the URL was accepted
        failure = SendFailure.FORBIDDEN_URL
    except SendError as error:
        failure = error.failure
    except Exception:
        log.exception("Could not send notification %s", delivery.id)
        failure = SendFailure.INTERNAL
    seconds = time.monotonic() - started
    span.set({"http.response.status_code": status})
    if failure is not None:
        span.fail(failure)
        log.info(
            "Notification %s was not delivered: %s (status %s, attempt %d)",
            delivery.id,
            failure,
            status,
            delivery.attempt,
            extra={"job": delivery.job_id, "request": delivery.origin.request_id},
        )
    span.end()
    return AttemptResult(delivery, seconds, status, failure)


async def _send(sender: Sender, delivery: ClaimedDelivery, traceparent: str | None) -> int:
    check_url(delivery.url, sender.rules)
    sent_at = datetime.fromtimestamp(int(delivery.claimed_at), UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "d4explain",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(int(delivery.claimed_at)),
        "webhook-signature": signatures(delivery.secrets, delivery.id, sent_at, delivery.body),
    }
    origin = {"X-Request-ID": delivery.origin.request_id, "traceparent": traceparent}
    headers |= {name: value for name, value in origin.items() if value is not None}
    answer = await sender.post(delivery.url, delivery.body.encode(), headers)
    return answer.status


def signatures(secrets: Sequence[str], id_: str, sent_at: datetime, body: str) -> str:
    """One signature per secret: after a rotation, both secrets sign."""
    return " ".join(Webhook(secret).sign(id_, sent_at, body) for secret in secrets)
