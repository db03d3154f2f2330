"""Clients that submit one explanation after the other, in a process of their own.

`python -m bench.speed.submitters PORT CLIENTS SECONDS FIRST_SEED < body.json` prints what came of
it as JSON. Threads around `http.client` on connections that stay open: what a client costs is taken
from the cores that are measured.
"""

from __future__ import annotations

import http.client
import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_TIMEOUT = 30.0  # seconds for one answer
_LATE = 60.0  # seconds that the process may take beyond those it was given


@dataclass(frozen=True)
class Submitted:
    seconds: float  # from the first request to the last answer
    latencies: list[float]  # seconds, of those accepted
    ids: list[str]  # of explanations that were answered with 202
    refusals: list[str]

    @property
    def per_second(self) -> float:
        return len(self.ids) / self.seconds

    def quantile(self, share: float) -> float:
        """The smallest latency that this share of the answers do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[math.ceil(share * len(ordered)) - 1]


def submitted(
    body: dict[str, Any], port: int, *, clients: int, seconds: float, first_seed: int
) -> Submitted:
    """What came of it when another process submitted for so long; every seed is used once."""
    arguments = [str(port), str(clients), str(seconds), str(first_seed)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.speed.submitters", *arguments],
        input=json.dumps(body).encode(),
        capture_output=True,
        check=True,
        timeout=seconds + _LATE,
    )
    return Submitted(**json.loads(done.stdout))


class _Client(threading.Thread):
    def __init__(self, port: int, body: dict[str, Any], seeds: range, seconds: float) -> None:
        super().__init__(daemon=True)
        # Only the seed differs, so that bodies cost the clients nothing to make.
        text = json.dumps({key: value for key, value in body.items() if key != "seed"})
        self._start = text[:-1].encode() + b', "seed": '
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
        self._seeds = seeds
        self._seconds = seconds
        self.latencies: list[float] = []
        self.ids: list[str] = []
        self.refusals: list[str] = []

    def run(self) -> None:
        until = time.perf_counter() + self._seconds
        for seed in self._seeds:
            began = time.perf_counter()
            if began > until:
                return
            try:
                status, answer = self._post(self._start + b"%d}" % seed)
            except (OSError, http.client.HTTPException) as error:
                self.refusals.append(f"no answer: {error}")
                self._connection.close()  # the next request opens it again
                continue
            if status == http.client.ACCEPTED:
                self.latencies.append(time.perf_counter() - began)
                self.ids.append(json.loads(answer)["id"])
            else:
                self.refusals.append(f"{status}: {answer[:200].decode(errors='replace')}")

    def _post(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/explanations", body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def main(arguments: Sequence[str]) -> None:
    port, clients, seconds, first_seed = (float(word) for word in arguments)
    body = json.load(sys.stdin)
    last = 2**53
    threads = [
        _Client(int(port), body, range(int(first_seed) + place, last, int(clients)), seconds)
        for place in range(int(clients))
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    came = Submitted(
        seconds=time.perf_counter() - began,
        latencies=[one for thread in threads for one in thread.latencies],
        ids=[one for thread in threads for one in thread.ids],
        refusals=[one for thread in threads for one in thread.refusals],
    )
    json.dump(asdict(came), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
