"""Whether a stack on this machine can work, asked without the weight of the client."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Readiness:
    ready: bool  # the API accepts work and the broker, which starts it, answers
    served: bool  # a worker lives for every queue
    detail: str


def readiness(host: str, port: int, timeout: float = 2.0) -> Readiness:
    """What /readyz says; a server that does not answer yet is not ready."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        told = json.loads(answer.read())
        checks = told["checks"]
        ready = answer.status == http.client.OK and checks["broker"]["ok"]
        return Readiness(ready, checks["workers"]["ok"], "; ".join(told["reasons"]))
    except (OSError, http.client.HTTPException) as error:
        return Readiness(False, False, f"the API does not answer ({error})")
    except (ValueError, KeyError, TypeError):
        return Readiness(False, False, "something else than a d4explain API answers")
    finally:
        connection.close()
