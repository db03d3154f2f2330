"""Opens the file system of an artifact URL, with time limits for object stores."""

from __future__ import annotations

from typing import Any

import fsspec

# An unreachable endpoint fails within 15 s, so that requests do not pile up and jobs are retried.
_S3_CONFIG = {
    "connect_timeout": 5,
    "read_timeout": 20,
    "retries": {"mode": "standard", "total_max_attempts": 2},
}
_S3_RETRIES = 2  # s3fs repeats what botocore has given up


def open_file_system(url: str) -> tuple[Any, str, bool]:
    """The file system, the folder in it, and whether it is a local one."""
    protocol = fsspec.utils.get_protocol(url)
    options: dict[str, Any] = {}
    if protocol in ("s3", "s3a"):
        # Another process may have stored what a kept listing lacks.
        options = {"use_listings_cache": False, "config_kwargs": _S3_CONFIG}
    files, root = fsspec.core.url_to_fs(url, **options)
    if options:
        files.retries = _S3_RETRIES
    return files, root, protocol in ("file", "local")
