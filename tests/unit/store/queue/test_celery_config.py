from __future__ import annotations

import pytest

from store.queue.celery_config import celery_settings
from store.queue.redis_urls import for_redis_py


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("redis://host/0", "redis://host/0"),
        ("rediss://host/0", "rediss://host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=c", "rediss://host/0?ssl_ca_certs=c&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
    ],
)
def test_certificates_are_checked_unless_told_otherwise(url: str, used: str) -> None:
    assert celery_settings(url)["broker_url"] == used


def test_messages_are_only_hints() -> None:
    settings = celery_settings("redis://host/0")
    assert settings["task_acks_late"] is False
    assert settings["task_ignore_result"] is True
    assert settings["accept_content"] == ["json"]


@pytest.mark.parametrize(
    ("url", "used"),
    [
        ("redis://host/3", "redis://host/3"),
        ("redis+socket:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis+socket:///run/redis.sock?virtual_host=3", "unix:///run/redis.sock?db=3"),
    ],
)
def test_redis_py_gets_the_address_in_its_own_words(url: str, used: str) -> None:
    assert for_redis_py(url) == used
