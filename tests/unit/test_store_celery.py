from __future__ import annotations

import pytest

from store.celery_config import celery_settings


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
