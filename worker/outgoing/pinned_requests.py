"""Sends one POST to a URL of a user.

The host is resolved once and its addresses are checked; the connection uses one of these. The time
and the answer are bounded. Redirects are not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpcore

from d4explain.contracts.webhooks import SendFailure
from store.outgoing_urls import UrlRules
from worker.outgoing.addresses import is_public, system_addresses

Resolver = Callable[[str, int], Awaitable[list[str]]]


class SendError(Exception):
    """The request was not sent, or there is no answer."""

    def __init__(self, failure: SendFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    is_whole: bool  # False if the body has more bytes than were read


@dataclass(frozen=True)
class Sender:
    """Sends requests by the rules of a deployment; `tls` is for https only."""

    rules: UrlRules
    seconds: float  # for everything: the lookup, the connection and the answer
    max_answer_bytes: int
    tls: ssl.SSLContext | None
    resolve: Resolver = system_addresses

    async def post(self, url: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            async with asyncio.timeout(self.seconds):
                return await self._post(url, content, headers)
        except TimeoutError:
            message = f"there was no answer within {self.seconds:g} s"
            raise SendError(SendFailure.TIMEOUT, message) from None
        except httpcore.ConnectError as error:
            tls_error = _tls_error(error)
            if isinstance(tls_error, ssl.SSLCertVerificationError):
                host = urlsplit(url).hostname
                message = (
                    f"the certificate of the host {host!r} is not trusted: "
                    f"{tls_error.verify_message}"
                )
                raise SendError(SendFailure.CERTIFICATE, message) from error
            failure = SendFailure.CONNECTION if tls_error is None else SendFailure.TLS
            message = str(tls_error or error) or "the connection was refused"
            raise SendError(failure, message) from error
        except httpcore.ProtocolError as error:
            raise SendError(SendFailure.PROTOCOL, "the answer is not HTTP") from error
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            message = str(error) or "the connection was closed"
            raise SendError(SendFailure.CONNECTION, message) from error

    async def _post(self, url: str, content: bytes, headers: Mapping[str, str]) -> Answer:
        network = _PinnedNetwork(self.rules, self.resolve)
        sent = [*headers.items(), ("Connection", "close")]
        parts, size = [], 0
        async with (
            httpcore.AsyncConnectionPool(ssl_context=self.tls, network_backend=network) as pool,
            pool.stream("POST", url, headers=sent, content=content) as response,
        ):
            async for part in response.aiter_stream():
                parts.append(part)
                size += len(part)
                if size > self.max_answer_bytes:
                    break
        body = b"".join(parts)[: self.max_answer_bytes]
        return Answer(response.status, body, size <= self.max_answer_bytes)


class _PinnedNetwork(httpcore.AnyIOBackend):
    """Connects to the addresses that it checked, even if the name now has others."""

    def __init__(self, rules: UrlRules, resolve: Resolver) -> None:
        self._rules = rules
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = await self._checked_addresses(host, port)
        for address in others:
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore.ConnectError:
                continue
        return await super().connect_tcp(last, port, timeout, local_address, socket_options)

    async def _checked_addresses(self, host: str, port: int) -> list[str]:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            message = f"the host {host!r} cannot be resolved: {error}"
            raise SendError(SendFailure.UNKNOWN_HOST, message) from error
        if not self._rules.is_private(host, port):
            for address in addresses:
                if not is_public(address):
                    raise SendError(
                        SendFailure.FORBIDDEN_ADDRESS,
                        f"the host {host!r} resolves to {address}, which is not a public address; "
                        f"add the host to {self._rules.private_setting} to allow it",
                    )
        return addresses


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """The error of the TLS handshake, which httpcore and anyio wrap into their own."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error
