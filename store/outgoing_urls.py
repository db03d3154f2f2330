"""Which URLs of users a deployment lets its workers send requests to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from d4explain.contracts.errors import InvalidInput, quoted
from store.settings import Settings

MAX_URL_LENGTH = 2000
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class UrlRules:
    """The hosts of a setting, and those that may have addresses that are not public."""

    hosts: frozenset[str]  # `host` or `host:port`
    private_hosts: frozenset[str]
    setting: str
    private_setting: str
    # Whether http is for private hosts only.
    needs_https: bool

    def is_private(self, host: str, port: int) -> bool:
        return bool(_names(host, port) & self.private_hosts)

    def allows(self, host: str, port: int) -> bool:
        return bool(_names(host, port) & self.hosts)


def black_box_rules(settings: Settings) -> UrlRules:
    return UrlRules(
        hosts=_listed(settings.black_box_hosts),
        private_hosts=_listed(settings.black_box_private_hosts),
        setting="D4_BLACK_BOX_HOSTS",
        private_setting="D4_BLACK_BOX_PRIVATE_HOSTS",
        needs_https=False,
    )


def webhook_rules(settings: Settings) -> UrlRules:
    return UrlRules(
        hosts=_listed(settings.webhook_hosts),
        private_hosts=_listed(settings.webhook_private_hosts),
        setting="D4_WEBHOOK_HOSTS",
        private_setting="D4_WEBHOOK_PRIVATE_HOSTS",
        needs_https=True,
    )


def check_url(url: str, rules: UrlRules, pointer: str = "") -> None:
    """Raises InvalidInput unless the rules allow the URL; does not resolve names."""
    # check this first: urlsplit drops line breaks
    if not url.isascii() or any(ord(letter) <= 32 for letter in url) or "\\" in url:
        raise InvalidInput("contains characters that must be percent-encoded in a URL", pointer)
    try:
        parts = urlsplit(url)
        port = port_of(parts)
    except ValueError:
        raise InvalidInput("is not a URL", pointer) from None
    if parts.scheme not in _PORTS:
        scheme = quoted(parts.scheme)
        raise InvalidInput(f"has the scheme {scheme}; expected http or https", pointer)
    if "@" in parts.netloc or parts.fragment or not parts.hostname:
        raise InvalidInput("must have a host, no user name and no fragment", pointer)
    host = parts.hostname
    if not rules.allows(host, port):
        shown = quoted(host)
        raise InvalidInput(
            f"the host {shown} is not in {rules.setting} of this deployment", pointer
        )
    if parts.scheme == "http" and rules.needs_https and not rules.is_private(host, port):
        raise InvalidInput(
            f"must begin with https; http is for hosts in {rules.private_setting} only", pointer
        )


def check_webhook_url(url: str, settings: Settings, pointer: str) -> None:
    """Raises InvalidInput unless this deployment allows webhooks with the URL."""
    if not settings.webhook_hosts:
        raise InvalidInput(
            "this deployment sends no webhooks; set D4_WEBHOOK_HOSTS to allow them", pointer
        )
    check_url(url, webhook_rules(settings), pointer)


def port_of(parts: SplitResult) -> int:
    """Raises ValueError if the URL names a port that does not exist."""
    return parts.port or _PORTS.get(parts.scheme, 0)


def _names(host: str, port: int) -> set[str]:
    name = host.lower()
    bracketed = f"[{name}]" if ":" in name else name  # an IPv6 address
    return {name, f"{bracketed}:{port}"}


def _listed(setting: str) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in setting.split(",") if name.strip())
