"""FairScheduler, against a simulated worker: who waits how long while another has many jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from store.jobs import FairGroup, JobKind, Waiting
from worker.execution.fair_scheduler import FairScheduler

PARTIES = [
    FairGroup(tenant, JobKind.COUNTERFACTUAL, f"den_{tenant}{number}")
    for tenant in "abc"
    for number in range(3)
]


@dataclass
class Queue:
    """Jobs by party, each with the time it came; a slice serves up to four of one party."""

    now: float = 100.0
    jobs: dict[FairGroup, list[float]] = field(default_factory=dict)

    def come(self, party: FairGroup, count: int = 1) -> None:
        self.jobs.setdefault(party, []).extend([self.now] * count)

    def waiting(self) -> list[Waiting]:
        return [
            Waiting(party, f"job of {party.denoiser_id}", self.now - came[0])
            for party, came in self.jobs.items()
            if came
        ]

    def serve(self, turns: FairScheduler) -> FairGroup:
        party = turns.next(self.waiting()).group
        self.jobs[party] = self.jobs[party][4:]
        self.now += 1
        turns.served(party)
        return party


def test_one_job_of_another_tenant_waits_for_one_slice_only() -> None:
    queue = Queue()
    turns = FairScheduler(lambda: queue.now)
    many, one = PARTIES[0], PARTIES[3]
    queue.come(many, 100)
    assert queue.serve(turns) == many
    queue.now -= 0.5  # it comes while the first slice is run
    queue.come(one)
    queue.now += 0.5
    assert queue.serve(turns) == one
    assert queue.serve(turns) == many


def test_a_tenant_with_many_denoisers_has_no_more_turns_than_another() -> None:
    queue = Queue()
    turns = FairScheduler(lambda: queue.now)
    for party in PARTIES[:4]:  # three of a, one of b
        queue.come(party, 40)
    served = Counter(queue.serve(turns).tenant for _ in range(12))
    assert served == {"a": 6, "b": 6}


@given(st.lists(st.lists(st.sampled_from(PARTIES), max_size=6), min_size=1, max_size=30))
def test_nobody_is_passed_over_for_longer_than_a_round_of_all(
    arrivals: list[list[FairGroup]],
) -> None:
    """Of n tenants a tenant's longest waiting party has its turn within n turns."""
    queue = Queue()
    turns = FairScheduler(lambda: queue.now)
    passed: dict[str, int] = {}
    for arriving in arrivals:
        for party in arriving:
            queue.come(party, 3)
        waiting = {one.group.tenant for one in queue.waiting()}
        if not waiting:
            continue
        served = queue.serve(turns)
        passed = {tenant: passed.get(tenant, 0) + 1 for tenant in waiting - {served.tenant}}
        assert max(passed.values(), default=0) <= 3
