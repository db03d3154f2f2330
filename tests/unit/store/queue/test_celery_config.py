from __future__ import annotations

import pytest

from store.queue.celery_config import celery_settings
from store.queue.redis_urls import for_redis_py


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host/0", "redis://host/0"),
        ("rediss://host/0", "rediss://host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=c", "rediss://host/0?ssl_ca_certs=c&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
    ],
)
def test_certificates_are_checked_by_default(url: str, expected: str) -> None:
    assert celery_settings(url)["broker_url"] == expected


def test_messages_are_acknowledged_early_and_have_no_results() -> None:
    settings = celery_settings("redis://host/0")
    assert settings["task_acks_late"] is False
    assert settings["task_ignore_result"] is True
    assert settings["accept_content"] == ["json"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host/3", "redis://host/3"),
        ("redis+socket:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis+socket:///run/redis.sock?virtual_host=3", "unix:///run/redis.sock?db=3"),
    ],
)
def test_broker_urls_are_converted_for_redis_py(url: str, expected: str) -> None:
    assert for_redis_py(url) == expected
