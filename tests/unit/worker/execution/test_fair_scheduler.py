"""FairScheduler with a simulated worker: nobody waits long while others have many jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from store.jobs import FairGroup, JobKind, Waiting
from worker.execution.fair_scheduler import FairScheduler

GROUPS = [
    FairGroup(tenant, JobKind.COUNTERFACTUAL, f"den_{tenant}{number}")
    for tenant in "abc"
    for number in range(3)
]


@dataclass
class Queue:
    """Arrival times of jobs by fair group; a time slice serves up to four jobs of one group."""

    now: float = 100.0
    jobs: dict[FairGroup, list[float]] = field(default_factory=dict)

    def arrive(self, group: FairGroup, count: int = 1) -> None:
        self.jobs.setdefault(group, []).extend([self.now] * count)

    def waiting(self) -> list[Waiting]:
        return [
            Waiting(group, f"job of {group.denoiser_id}", self.now - arrivals[0])
            for group, arrivals in self.jobs.items()
            if arrivals
        ]

    def serve(self, scheduler: FairScheduler) -> FairGroup:
        group = scheduler.next(self.waiting()).group
        self.jobs[group] = self.jobs[group][4:]
        self.now += 1
        scheduler.mark_served(group)
        return group


def test_a_job_of_another_tenant_waits_for_only_one_time_slice() -> None:
    queue = Queue()
    scheduler = FairScheduler(lambda: queue.now)
    many, one = GROUPS[0], GROUPS[3]
    queue.arrive(many, 100)
    assert queue.serve(scheduler) == many
    queue.now -= 0.5  # it arrives during the first time slice
    queue.arrive(one)
    queue.now += 0.5
    assert queue.serve(scheduler) == one
    assert queue.serve(scheduler) == many


def test_a_tenant_with_many_denoisers_gets_no_more_time_slices() -> None:
    queue = Queue()
    scheduler = FairScheduler(lambda: queue.now)
    for group in GROUPS[:4]:  # three of tenant a, one of tenant b
        queue.arrive(group, 40)
    served = Counter(queue.serve(scheduler).tenant for _ in range(12))
    assert served == {"a": 6, "b": 6}


@given(st.lists(st.lists(st.sampled_from(GROUPS), max_size=6), min_size=1, max_size=30))
def test_no_tenant_waits_longer_than_one_round(
    arrivals: list[list[FairGroup]],
) -> None:
    """With n tenants, each waiting tenant is served within n time slices."""
    queue = Queue()
    scheduler = FairScheduler(lambda: queue.now)
    passed: dict[str, int] = {}
    for arriving in arrivals:
        for group in arriving:
            queue.arrive(group, 3)
        waiting = {entry.group.tenant for entry in queue.waiting()}
        if not waiting:
            continue
        served = queue.serve(scheduler)
        passed = {tenant: passed.get(tenant, 0) + 1 for tenant in waiting - {served.tenant}}
        assert max(passed.values(), default=0) <= 3
