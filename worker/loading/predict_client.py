"""Sends one POST to a URL that a user registered.

The address is checked and pinned, the answer is bounded, and redirects are not followed.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from d4explain.contracts.defaults import MIB
from d4explain.gnn.errors import RefusedError
from store.catalogue.black_boxes import check_url, hosts
from store.settings import Settings

_ANSWER_BYTES = 4 * MIB
_CHUNK = 64 * 1024
_RETRY_PAUSES = (0.5, 2.0)  # seconds before the second and the third attempt
# These addresses embed another address, so is_global says nothing about the destination.
_TUNNELS = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16")]


class PredictError(RefusedError):
    """The black box cannot be reached or its answer is malformed; users see the message."""


class _TransientError(Exception):
    """Another attempt may succeed."""


@dataclass(frozen=True)
class PredictClient:
    url: str
    settings: Settings
    pause: Callable[[float], None] = time.sleep
    resolve: Callable[[str, int], list[str]] | None = None  # None: the system's resolver

    def post(self, body: Any) -> Any:
        """Sends JSON, returns the JSON answer and retries after transient errors."""
        check_url(self.url, self.settings)
        data = json.dumps(body, allow_nan=False).encode()
        last_error = ""
        for pause in (*_RETRY_PAUSES, None):
            try:
                return _parse_json(self._post_once(data))
            except ssl.SSLCertVerificationError as error:
                raise PredictError(
                    f"the certificate of the black box is not trusted: {error.verify_message}; "
                    "set SSL_CERT_FILE in the worker's environment to trust other authorities"
                ) from error
            except (_TransientError, OSError, HTTPException) as error:
                last_error = str(error) or type(error).__name__
            if pause is not None:
                self.pause(pause)
        attempts = len(_RETRY_PAUSES) + 1
        raise PredictError(f"the black box did not answer in {attempts} attempts: {last_error}")

    def addresses(self, host: str, port: int) -> list[str]:
        """Resolves the host; every address must be public unless the settings list the host."""
        try:
            addresses = (self.resolve or _resolve)(host, port)
        except OSError as error:
            raise _TransientError(f"the host {host!r} cannot be resolved: {error}") from error
        if host.lower() in hosts(self.settings.black_box_private_hosts):
            return addresses
        for address in addresses:
            if not is_public(address):
                raise PredictError(
                    f"the host {host!r} resolves to {address}, which is not a public address; "
                    "add the host to D4_BLACK_BOX_PRIVATE_HOSTS to allow it"
                )
        return addresses

    def _post_once(self, data: bytes) -> bytes:
        parts = urlsplit(self.url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        deadline = time.monotonic() + self.settings.black_box_seconds
        addresses = self.addresses(host, port)
        connection = _PinnedConnection(
            host, port, addresses, secure, self.settings.black_box_seconds
        )
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", path, data, headers)
            response = connection.getresponse()
            _check_status(response)
            return _read(response, deadline)
        finally:
            connection.close()


class _PinnedConnection(HTTPConnection):
    """Connects only to the checked addresses, even if the name now resolves to others."""

    def __init__(
        self, host: str, port: int, addresses: list[str], secure: bool, seconds: float
    ) -> None:
        super().__init__(host, port, timeout=seconds)
        self._addresses = addresses
        self._tls = ssl.create_default_context() if secure else None
        self._seconds = seconds

    def connect(self) -> None:
        plain = self._open_socket()
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host) if self._tls else plain

    def _open_socket(self) -> socket.socket:
        *others, last = self._addresses
        for address in others:
            try:
                return socket.create_connection((address, self.port), self._seconds)
            except OSError:
                continue
        return socket.create_connection((last, self.port), self._seconds)


def is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        if parsed.teredo is not None or any(parsed in tunnel for tunnel in _TUNNELS):
            return False
    return parsed.is_global and not parsed.is_multicast


def _resolve(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _check_status(response: HTTPResponse) -> None:
    if response.status == 200:
        return
    status = f"status {response.status}"
    if response.status >= 500 or response.status == 429:
        raise _TransientError(status)
    redirect = "; redirects are not followed" if 300 <= response.status < 400 else ""
    raise PredictError(f"the black box answered with {status}{redirect}")


def _read(response: HTTPResponse, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES:
            raise PredictError(f"the black box's answer has more than {_ANSWER_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise _TransientError("the answer took too long")
    return b"".join(parts)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise PredictError("the black box's answer is not JSON") from None
