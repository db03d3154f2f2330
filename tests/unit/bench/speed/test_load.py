"""Load benchmark: plain loop, clients and figures."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from bench.speed.api.load import measure_load
from bench.speed.api.plain_commits import read_commits, write_commits
from bench.speed.api.submitters import Submissions, submit_all
from store.artifacts.artifact_store import ArtifactStore
from store.database.tables import Explanation
from store.settings import Settings
from store.store import Store


def test_plain_loop_writes_the_rows_of_the_api(api: Any, tmp_path: Path) -> None:
    body = {"kind": "counterfactual", "gnn": api.gnn(), "dataset": api.dataset()}
    body |= {"graph": api.graph()}
    first = api.client.post("/v1/explanations", json=body).json()
    api.finish(first["job"]["waiting_for"])  # later explanations then wait for no training
    posted = [
        api.client.post("/v1/explanations", json={**body, "seed": seed}).json()
        for seed in (1, 2, 3)
    ]
    commits = read_commits(api.store.settings, [explanation["id"] for explanation in posted])
    loop = write_commits(commits, tmp_path / "loop", seconds=30)
    assert loop.count == 3
    assert 0 < loop.cpu_seconds < loop.seconds

    settings = Settings(data_dir=tmp_path / "loop")
    with Store.open(settings) as store:
        assert read_commits(settings, [explanation["id"] for explanation in posted]) == commits
        with store.database.reading() as session:
            rows = session.scalars(select(Explanation)).all()
        assert {row.id for row in rows} == {explanation["id"] for explanation in posted}
        for row in rows:
            expected = api.store.artifacts.of("default").get(row.request_digest)
            assert (
                ArtifactStore(settings.artifacts).of("default").get(row.request_digest) == expected
            )


def test_missing_explanation_raises(api: Any) -> None:
    posted = api.explanation()
    with pytest.raises(ValueError, match="not enough values"):
        read_commits(api.store.settings, [posted["id"], "exp_lost"])


@given(
    latencies=st.lists(st.floats(0.001, 9), min_size=1, max_size=50),
    share=st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_match_numpy(latencies: list[float], share: float) -> None:
    submissions = Submissions(seconds=1.0, latencies=latencies, ids=[], refusals=[])
    assert submissions.quantile(share) == np.quantile(latencies, share, method="inverted_cdf")


class FakeApi:
    """A slow API that sends pieces, and can refuse requests or close connections."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.seeds: list[int] = []
        self.received_at: list[float] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                seed = json.loads(await reader.readexactly(length))["seed"]
                self.received_at.append(time.perf_counter())
                self.seeds.append(seed)
                await asyncio.sleep(self.seconds)
                if seed == REFUSED:
                    await self.write(writer, b"503 Service Unavailable", b"full")
                elif seed == DROPPED:
                    return
                else:
                    await self.write(writer, b"202 Accepted", b'{"id": "exp_%d"}' % seed)
        except asyncio.IncompleteReadError:  # the client closed the connection
            pass
        finally:
            writer.close()

    async def write(self, writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        for piece in (head[:20], head[20:] + body[:3], body[3:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)

    def receive(self, *, clients: int, seconds: float, rate: float | None) -> Submissions:
        async def run() -> Submissions:
            server = await asyncio.start_server(self, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                return await submit_all(
                    {"kind": "x"}, port, clients=clients, seconds=seconds, first_seed=0, rate=rate
                )

        return asyncio.run(run())


REFUSED, DROPPED = 3, 5


def test_clients_submit_again_after_an_answer() -> None:
    api = FakeApi()
    submissions = api.receive(clients=2, seconds=0.5, rate=None)
    accepted = [seed for seed in api.seeds if seed not in (REFUSED, DROPPED)]
    assert sorted(submissions.ids) == sorted(f"exp_{seed}" for seed in accepted)
    assert len(accepted) > 10
    assert len(submissions.latencies) == len(accepted)
    assert sorted(api.seeds) == list(range(len(api.seeds)))  # each seed once, without gaps
    assert sorted(refusal[:9] for refusal in submissions.refusals) == ["503: full", "no answer"]


def test_requests_at_a_rate_are_even_and_timed_from_their_schedule() -> None:
    quick, started = FakeApi(), time.perf_counter()
    quick.receive(clients=8, seconds=1.0, rate=40)
    assert 20 < len(quick.seeds) <= 41
    assert all(at - started >= number / 40 for number, at in enumerate(quick.received_at))

    slow = FakeApi(seconds=0.2)  # one client gets 5 answers per second; 10 are scheduled
    latencies = slow.receive(clients=1, seconds=1.0, rate=10).latencies
    assert latencies == sorted(latencies)  # the delay grows
    assert latencies[-1] > 0.2 + 0.1 * (len(latencies) - 1)


@pytest.mark.slow
def test_short_load_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = measure_load(clients=4, seconds=2.0, seed=0, on_progress=lambda *_: None)
    figures = section.figures
    assert all(value > 0 for value in asdict(figures).values())
    assert figures.submit_over_bare == pytest.approx(figures.submit_rps / figures.submit_bare_rps)
    assert not list(tmp_path.iterdir())
