"""Sends graphs to a black box, a URL that a user registered, and retries after transient errors."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from d4explain.contracts.defaults import MIB
from d4explain.contracts.webhooks import SendFailure
from d4explain.gnn.errors import RefusedError
from store.catalogue.black_boxes import check_black_box_url
from store.outgoing_urls import black_box_rules
from store.settings import Settings
from worker.outgoing.addresses import system_addresses
from worker.outgoing.pinned_requests import Answer, Resolver, Sender, SendError

_ANSWER_BYTES = 4 * MIB
_RETRY_PAUSES = (0.5, 2.0)  # seconds before the second and the third attempt
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class PredictError(RefusedError):
    """The black box cannot be reached or its answer is malformed; users see the message."""


class _TransientError(Exception):
    """Another attempt may succeed."""


@dataclass(frozen=True)
class PredictClient:
    url: str
    settings: Settings
    pause: Callable[[float], None] = time.sleep
    resolve: Resolver = system_addresses

    def post(self, body: Any) -> Any:
        """Sends JSON, returns the JSON answer and retries after transient errors."""
        check_black_box_url(self.url, self.settings)
        data = json.dumps(body, allow_nan=False).encode()
        last_error = ""
        for pause in (*_RETRY_PAUSES, None):
            try:
                return _parse_json(self._post_once(data))
            except _TransientError as error:
                last_error = str(error)
            if pause is not None:
                self.pause(pause)
        attempts = len(_RETRY_PAUSES) + 1
        raise PredictError(f"the black box did not answer in {attempts} attempts: {last_error}")

    def _post_once(self, data: bytes) -> bytes:
        try:
            answer = asyncio.run(self._sender.post(self.url, data, _HEADERS))
        except SendError as error:
            if error.failure is SendFailure.FORBIDDEN_ADDRESS:
                raise PredictError(str(error)) from error
            if error.failure is SendFailure.CERTIFICATE:
                raise PredictError(
                    f"{error}; set SSL_CERT_FILE in the worker's environment to trust other "
                    "authorities"
                ) from error
            raise _TransientError(str(error)) from error
        _check(answer)
        return answer.body

    @cached_property
    def _sender(self) -> Sender:
        return Sender(
            rules=black_box_rules(self.settings),
            seconds=self.settings.black_box_seconds,
            max_answer_bytes=_ANSWER_BYTES,
            tls=ssl.create_default_context() if self.url.startswith("https:") else None,
            resolve=self.resolve,
        )


def _check(answer: Answer) -> None:
    status = f"status {answer.status}"
    if answer.status >= 500 or answer.status == 429:
        raise _TransientError(status)
    if answer.status != 200:
        redirect = "; redirects are not followed" if 300 <= answer.status < 400 else ""
        raise PredictError(f"the black box answered with {status}{redirect}")
    if not answer.is_whole:
        raise PredictError(f"the black box's answer has more than {_ANSWER_BYTES:,} bytes")


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise PredictError("the black box's answer is not JSON") from None
