"""One POST to an address that a stranger named: checked, pinned, bounded, never redirected."""

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
_PAUSES = (0.5, 2.0)  # before a second and a third attempt
# Addresses that carry another one inside: what they lead to is not what they look like.
_TUNNELS = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16")]


class PredictError(RefusedError):
    """The black box cannot be asked, or answers nonsense; the words are for the caller."""


class _PassingError(Exception):
    """Worth another attempt."""


@dataclass(frozen=True)
class PredictClient:
    url: str
    settings: Settings
    pause: Callable[[float], None] = time.sleep
    resolve: Callable[[str, int], list[str]] | None = None  # None: the system's resolver

    def ask(self, body: Any) -> Any:
        """The JSON answer to a JSON body; passing faults are tried again."""
        check_url(self.url, self.settings)
        data = json.dumps(body, allow_nan=False).encode()
        last = ""
        for pause in (*_PAUSES, None):
            try:
                return _json(self._post(data))
            except ssl.SSLCertVerificationError as error:
                raise PredictError(
                    f"the certificate of the black box is not trusted: {error.verify_message}; "
                    "SSL_CERT_FILE in the worker's environment may name other authorities"
                ) from error
            except (_PassingError, OSError, HTTPException) as error:
                last = str(error) or type(error).__name__
            if pause is not None:
                self.pause(pause)
        attempts = len(_PAUSES) + 1
        raise PredictError(f"the black box did not answer in {attempts} attempts: {last}")

    def addresses(self, host: str, port: int) -> list[str]:
        """Where the host is; every one of its addresses has to be public, or the host be listed."""
        try:
            found = (self.resolve or _resolved)(host, port)
        except OSError as error:
            raise _PassingError(f"the host {host!r} cannot be found: {error}") from error
        if host.lower() in hosts(self.settings.black_box_private_hosts):
            return found
        for address in found:
            if not is_public(address):
                raise PredictError(
                    f"the host {host!r} is at {address}, which is not a public address; "
                    "D4_BLACK_BOX_PRIVATE_HOSTS would have to list it"
                )
        return found

    def _post(self, data: bytes) -> bytes:
        parts = urlsplit(self.url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        deadline = time.monotonic() + self.settings.black_box_seconds
        addresses = self.addresses(host, port)
        connection = _Pinned(host, port, addresses, secure, self.settings.black_box_seconds)
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", path, data, headers)
            response = connection.getresponse()
            _check_status(response)
            return _read(response, deadline)
        finally:
            connection.close()


class _Pinned(HTTPConnection):
    """Connects to one of the addresses that were checked, whatever the name leads to by now."""

    def __init__(
        self, host: str, port: int, addresses: list[str], secure: bool, seconds: float
    ) -> None:
        super().__init__(host, port, timeout=seconds)
        self._addresses = addresses
        self._tls = ssl.create_default_context() if secure else None
        self._seconds = seconds

    def connect(self) -> None:
        plain = self._connected()
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host) if self._tls else plain

    def _connected(self) -> socket.socket:
        *others, last = self._addresses
        for address in others:
            try:
                return socket.create_connection((address, self.port), self._seconds)
            except OSError:
                continue
        return socket.create_connection((last, self.port), self._seconds)


def is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.split("%", maxsplit=1)[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found.teredo is not None or any(found in tunnel for tunnel in _TUNNELS):
            return False
    return found.is_global and not found.is_multicast


def _resolved(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _check_status(response: HTTPResponse) -> None:
    if response.status == 200:
        return
    said = f"status {response.status}"
    if response.status >= 500 or response.status == 429:
        raise _PassingError(said)
    redirect = "; redirects are not followed" if 300 <= response.status < 400 else ""
    raise PredictError(f"the black box answered with {said}{redirect}")


def _read(response: HTTPResponse, deadline: float) -> bytes:
    parts, size = [], 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES:
            raise PredictError(f"the black box's answer has more than {_ANSWER_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise _PassingError("its answer took too long")
    return b"".join(parts)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise PredictError("the black box's answer is not JSON") from None
