"""Opens the file system of an artifact URL, with time limits for object stores; its outages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import fsspec

from store.errors import ArtifactMissing, ArtifactsUnavailable

# An unreachable endpoint fails within 15 s, so that requests do not pile up and jobs are retried.
_S3_CONFIG = {
    "connect_timeout": 5,
    "read_timeout": 20,
    "retries": {"mode": "standard", "total_max_attempts": 2},
}
_S3_RETRIES = 2  # s3fs repeats what botocore has given up


class OpenedUrl(NamedTuple):
    files: Any  # a file system of fsspec
    root: str
    is_local: bool
    read_options: dict[str, int]  # to read an artifact that fits in memory


def open_file_system(url: str) -> OpenedUrl:
    """The file system of the URL and the folder in it."""
    protocol = fsspec.utils.get_protocol(url)
    options: dict[str, Any] = {}
    if protocol in ("s3", "s3a"):
        # Another process may have stored what a kept listing lacks.
        options = {"use_listings_cache": False, "config_kwargs": _S3_CONFIG}
    files, root = fsspec.core.url_to_fs(url, **options)
    if options:
        files.retries = _S3_RETRIES
    # Otherwise s3fs first asks for the size, to read in parts at once: two requests instead of one.
    read_options = {"max_concurrency": 1} if options else {}
    return OpenedUrl(files, root, protocol in ("file", "local"), read_options)


@contextmanager
def outages(opened: OpenedUrl, *, writes: bool = False) -> Iterator[None]:
    """Raises `ArtifactsUnavailable` for errors of a remote file system.

    Each one has its own errors. A missing artifact stays a FileNotFoundError, except in a write,
    where the bucket is missing.
    """
    try:
        yield
    except Exception as error:
        is_missing = isinstance(error, FileNotFoundError) and not writes
        if opened.is_local or is_missing or isinstance(error, ArtifactMissing):
            raise
        raise ArtifactsUnavailable(error) from error
