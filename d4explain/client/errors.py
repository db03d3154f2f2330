"""Errors of the client, besides those of graph formats.

InvalidNameError          a GNN or reference set cannot have this name; nothing was sent
ApiError
├── UnreachableError      no server answers at the address
├── RefusedError          the API answered with a problem (RFC 9457)
├── RejectedGnnError      a model was exported, but the GNN failed the checks of the API
├── UnsuccessfulJobError  a job ended as failed, canceled or expired
├── IncompleteLogError    the API returned fewer entries of the audit log than it signed
└── WaitTimeoutError      a job did not finish within the timeout
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from d4explain.client.resources import Gnn, Job
from d4explain.errors import D4Error


class ApiError(D4Error):
    """Base of all errors that `d4explain.Client` raises."""


class InvalidNameError(D4Error, ValueError):
    """A new GNN or reference set cannot have this name."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"the name {shortened(name)!r} {fault}")
        self.name = name


def shortened(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


class UnreachableError(ApiError):
    hint = "start the stack with `d4explain up`, or give another address with --url"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url} ({reason})")
        self.url = url


@dataclass(frozen=True)
class ProblemDetail:
    """One fault and its location: a JSON pointer, a parameter or a header."""

    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.detail}" if self.pointer else self.detail


class RefusedError(ApiError):
    """A problem document: `status`, `title`, `detail` and the faults in `errors`."""

    def __init__(
        self, status: int, title: str, detail: str, errors: tuple[ProblemDetail, ...], body: Any
    ) -> None:
        message = detail or title
        # The detail often repeats the only fault; show it once.
        more = [str(error) for error in errors if error.detail.lower() not in message.lower()]
        super().__init__("; ".join([message, *more]) + f" (HTTP {status})")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = errors
        self.body = body

    @classmethod
    def from_response(cls, response: httpx.Response) -> RefusedError:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return cls(response.status_code, response.reason_phrase, "", (), body)
        errors = tuple(
            ProblemDetail(str(location), str(error.get("detail", "")))
            for error in body.get("errors") or []
            if isinstance(error, dict)
            for location in [
                error.get("pointer") or error.get("parameter") or error.get("header", "")
            ]
        )
        title = str(body.get("title") or response.reason_phrase)
        return cls(response.status_code, title, str(body.get("detail") or ""), errors, body)


class RejectedGnnError(ApiError):
    def __init__(self, gnn: Gnn) -> None:
        checks = gnn.report.checks if gnn.report is not None else []
        failed = [f"{check.name}: {check.detail}" for check in checks if not check.passed]
        reasons = "; ".join(failed) or "its probe did not end"
        super().__init__(f"the GNN {gnn.name}@{gnn.version} is {gnn.state}: {reasons}")
        self.gnn = gnn


class UnsuccessfulJobError(ApiError):
    def __init__(self, job: Job) -> None:
        reason = f": {job.error.message}" if job.error and job.error.message else ""
        super().__init__(f"{job.kind} job {job.id} {job.state}{reason}")
        self.job = job


class IncompleteLogError(ApiError):
    def __init__(self, found: int, signed: int) -> None:
        super().__init__(f"the audit log has {found} entries, but its signed end is entry {signed}")


class WaitTimeoutError(ApiError):
    def __init__(self, job: Job, seconds: float) -> None:
        super().__init__(f"{job.kind} job {job.id} is still {job.state} after {seconds:.0f} s")
        self.job = job
