"""Asks a stack on this machine whether it is ready, without importing the client."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass

READY_SECONDS = 60.0  # how long a stack may take to start


@dataclass(frozen=True)
class Readiness:
    ready: bool  # the API and the broker answer
    has_workers: bool  # every queue has a live worker
    detail: str


def readiness(host: str, port: int, timeout: float = 2.0) -> Readiness:
    """The answer of /readyz; a server that does not answer yet is not ready."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = json.loads(response.read())
        checks = body["checks"]
        ready = response.status == http.client.OK and checks["broker"]["ok"]
        return Readiness(ready, checks["workers"]["ok"], "; ".join(body["reasons"]))
    except (OSError, http.client.HTTPException) as error:
        return Readiness(False, False, f"the API does not answer ({error})")
    except (ValueError, KeyError, TypeError):
        return Readiness(False, False, "the server at this address is not a d4explain API")
    finally:
        connection.close()
