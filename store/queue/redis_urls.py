"""Converts the broker URL for Celery and redis-py, without importing them."""

from __future__ import annotations


def for_celery(url: str) -> str:
    """Kombu checks the certificate of a rediss:// server only if told to."""
    if not url.startswith("rediss://") or "ssl_cert_reqs=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}ssl_cert_reqs=required"


def for_redis_py(url: str) -> str:
    """Celery and redis-py use different URLs for a Unix socket."""
    if not url.startswith("redis+socket://"):
        return url
    return "unix://" + url.removeprefix("redis+socket://").replace("virtual_host=", "db=")
