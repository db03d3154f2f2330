"""The judge accepts good histories and finds every kind of fault that is planted into one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.contracts.job_states import JobKind, JobState
from tests.chaos.history import (
    Answer,
    AnyRecord,
    Claimed,
    Ended,
    Expected,
    Finished,
    HistoryWriter,
    Read,
    Recovery,
    Row,
    Run,
    read_history,
)
from tests.chaos.judge import Broken, judge

Records = list[AnyRecord]
QUEUED, RUNNING, SUCCEEDED = JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED


@st.composite
def good_histories(draw: st.DrawFn) -> Records:
    """Jobs with lost replies, repeated requests, several attempts and any number of readers."""
    records: Records = [
        Run(seed=0, database="", jobs=1, lease_seconds=6, date="", commit="", machine=""),
        *(Expected(work=f"work {n}", ending=SUCCEEDED, result=f"digest {n}") for n in range(3)),
        Expected(work="poison", ending=JobState.FAILED, result=None),
    ]
    time = 0.0

    def add(record: AnyRecord) -> None:
        nonlocal time
        time += 1.0
        records.append(record.model_copy(update={"at": time}))

    endings: list[Ended] = []
    for number in range(draw(st.integers(1, 4))):
        work = draw(st.sampled_from(["work 0", "work 1", "work 2", "poison"]))
        job, key = f"job {number}", f"key {number}"
        ending = JobState.FAILED if work == "poison" else SUCCEEDED
        result = work.replace("work", "digest") if ending is SUCCEEDED else None
        for status in draw(st.lists(st.sampled_from([0, 429, 503, 507]), max_size=3)):
            add(Answer(key=key, work=work, status=status))
        for _ in range(draw(st.integers(1, 2))):
            add(Answer(key=key, work=work, status=202, job=job, resource=f"resource {number}"))
        states: list[JobState] = []
        started = False
        steps = [(QUEUED, 0)]
        for attempt in range(1, draw(st.integers(1, 3)) + 1):
            steps += [(RUNNING, attempt), (QUEUED, attempt)]
        steps[-1] = (ending, steps[-1][1])
        for state, attempt in steps:
            states.append(state)
            if state is RUNNING:
                add(Claimed(job=job, known_format=draw(st.integers(1, 2))))
            add(Row(job=job, state=state, attempt=attempt))
            started = started or state is RUNNING
            seen = result if state is SUCCEEDED else None
            least = 1 if state.is_terminal else 0
            for reader in range(draw(st.integers(least, 2))):
                add(
                    Read(
                        reader=f"reader {reader}",
                        asked_at=time + 0.5,
                        job=job,
                        state=state,
                        has_started=started,
                        result=seen,
                    )
                )
        endings.append(Ended(job=job, kind=JobKind.PREDICT, part_of=job, states=states))
    add(Recovery(job="job 0", seconds=draw(st.floats(0, 8))))
    for record in endings:
        add(record)
    add(Finished())
    return records


class Plant:
    """Changes one record of a history, chosen by Hypothesis."""

    def __init__(self, draw: st.DrawFn, records: Records) -> None:
        self.draw = draw
        self.records = records

    def choose(self, kind: type, fits: Callable[[AnyRecord], bool] = lambda _: True) -> int:
        found = [n for n, one in enumerate(self.records) if isinstance(one, kind) and fits(one)]
        return self.draw(st.sampled_from(found))

    def change(self, kind: type, fits: Callable[..., bool] = lambda _: True, **new: object) -> None:
        at = self.choose(kind, fits)
        self.records[at] = self.records[at].model_copy(update=new)

    def append(self, record: AnyRecord) -> None:
        """As the last event before the end."""
        self.records.insert(-1, record.model_copy(update={"at": self.records[-1].at}))


def lose_job(plant: Plant) -> None:
    del plant.records[plant.choose(Ended)]


def leave_running(plant: Plant) -> None:
    plant.change(Ended, states=[QUEUED, RUNNING])


def succeed_twice(plant: Plant) -> None:
    again = [QUEUED, RUNNING, SUCCEEDED, RUNNING, SUCCEEDED]
    plant.change(Ended, states=again)


def run_after_the_end(plant: Plant) -> None:
    plant.change(Ended, states=[QUEUED, RUNNING, SUCCEEDED, QUEUED])


def add_job_of_nobody(plant: Plant) -> None:
    states = [QUEUED, RUNNING, SUCCEEDED]
    plant.append(Ended(job="other", kind=JobKind.PREDICT, part_of="other", states=states))


def do_job_twice(plant: Plant) -> None:
    twin = plant.records[plant.choose(Ended)]
    plant.append(twin.model_copy(update={"job": "twin"}))


def never_accept(plant: Plant) -> None:
    plant.append(Answer(key="ignored", work="work 0", status=503))


def fail_server(plant: Plant) -> None:
    status = plant.draw(st.sampled_from([400, 404, 409, 422, 500, 502]))
    plant.append(Answer(key="key 0", work="work 0", status=status))


def fail_reader(plant: Plant) -> None:
    status = plant.draw(st.sampled_from([404, 500]))
    plant.append(Read(reader="reader", asked_at=0, job="job 0", status=status, state=None))


def change_resource(plant: Plant) -> None:
    job = plant.draw(st.sampled_from(["job 0", "another job"]))
    plant.append(Answer(key="key 0", work="work 0", status=202, job=job, resource="another"))


def read_backwards(plant: Plant) -> None:
    state = plant.draw(st.sampled_from([QUEUED, RUNNING, JobState.CANCELED, JobState.EXPIRED]))
    ended = plant.records[plant.choose(Read, lambda one: one.state.is_terminal)]
    asked_at = ended.at + plant.draw(st.floats(0, 1))
    plant.append(ended.model_copy(update={"state": state, "asked_at": asked_at, "result": None}))


def read_unstarted(plant: Plant) -> None:
    started = plant.records[plant.choose(Read, lambda one: one.state.is_terminal)]
    late = {"state": QUEUED, "has_started": False, "asked_at": started.at, "result": None}
    plant.append(started.model_copy(update=late))


def has_success(records: Records) -> bool:
    return any(isinstance(one, Read) and one.result for one in records)


def hide_result(plant: Plant) -> None:
    plant.change(Read, lambda one: one.result is not None, result=None)


def read_nothing(plant: Plant) -> None:
    job = plant.records[plant.choose(Read, lambda one: one.result is not None)].job
    plant.records[:] = [
        one for one in plant.records if not (isinstance(one, Read) and one.job == job)
    ]


def change_result(plant: Plant) -> None:
    seen = plant.records[plant.choose(Read, lambda one: one.result is not None)]
    plant.append(seen.model_copy(update={"result": "other", "asked_at": seen.at}))


def lower_attempt(plant: Plant) -> None:
    row = plant.records[plant.choose(Row, lambda one: one.state.is_terminal)]
    state = plant.draw(st.sampled_from([QUEUED, RUNNING]))
    plant.append(row.model_copy(update={"state": state}))


def fall_back_an_attempt(plant: Plant) -> None:
    at = plant.choose(Row, lambda one: one.state is RUNNING)
    row = plant.records[at]
    later = row.model_copy(update={"attempt": row.attempt + 1})
    plant.records.insert(at, later)


def claim_of_unknown_format(plant: Plant) -> None:
    plant.change(Claimed, known_format=0)


def end_otherwise(plant: Plant) -> None:
    plant.change(Ended, states=[QUEUED, JobState.EXPIRED])


def expect_other_result(plant: Plant) -> None:
    """Every reader saw the same wrong result."""
    work = plant.records[
        plant.choose(Answer, lambda one: one.job is not None and one.work != "poison")
    ].work
    plant.change(Expected, lambda one: one.work == work, result="other")


def recover_slowly(plant: Plant) -> None:
    seconds = plant.draw(st.floats(8.01, 1e6))
    plant.append(Recovery(job="job 0", seconds=seconds))


def cut_the_end(plant: Plant) -> None:
    del plant.records[-1]


PLANTED = [
    (lose_job, Broken.LOST),
    (leave_running, Broken.STUCK),
    (succeed_twice, Broken.ENDED_TWICE),
    (run_after_the_end, Broken.ENDED_TWICE),
    (add_job_of_nobody, Broken.DOUBLED),
    (do_job_twice, Broken.DOUBLED),
    (never_accept, Broken.NEVER_ACCEPTED),
    (fail_server, Broken.SERVER_ERROR),
    (fail_reader, Broken.SERVER_ERROR),
    (change_resource, Broken.KEY_CHANGED),
    (read_backwards, Broken.WENT_BACKWARDS),
    (read_unstarted, Broken.WENT_BACKWARDS),
    (hide_result, Broken.NO_RESULT),
    (read_nothing, Broken.NO_RESULT),
    (change_result, Broken.RESULT_CHANGED),
    (lower_attempt, Broken.ATTEMPT_FELL),
    (fall_back_an_attempt, Broken.ATTEMPT_FELL),
    (claim_of_unknown_format, Broken.UNKNOWN_FORMAT),
    (end_otherwise, Broken.WRONG_ENDING),
    (expect_other_result, Broken.RESULT_DIFFERS),
    (recover_slowly, Broken.SLOW_RECOVERY),
    (cut_the_end, Broken.INCOMPLETE),
]
NEEDS_A_SUCCESS = (hide_result, read_nothing, change_result, expect_other_result)


@given(good_histories())
def test_a_good_history_breaks_nothing(records: Records) -> None:
    assert judge(records) == []


@pytest.mark.parametrize(("plant", "broken"), PLANTED, ids=[one.__name__ for one, _ in PLANTED])
@given(st.data())
@settings(max_examples=20)
def test_a_planted_fault_is_found(
    plant: Callable[[Plant], None], broken: Broken, data: st.DataObject
) -> None:
    histories = good_histories()
    if plant in NEEDS_A_SUCCESS:
        histories = histories.filter(has_success)
    records = data.draw(histories)
    plant(Plant(data.draw, records))
    assert broken in {violation.broken for violation in judge(records)}


def test_every_promise_has_a_planted_fault() -> None:
    assert {broken for _, broken in PLANTED} == set(Broken)


@given(good_histories())
@settings(max_examples=20)
def test_a_file_keeps_the_history(
    tmp_path_factory: pytest.TempPathFactory, records: Records
) -> None:
    path = tmp_path_factory.mktemp("histories") / "one.jsonl"
    writer = HistoryWriter(path)
    for record in records:
        writer.write(record)
    writer.close()
    read = read_history(path)
    assert [one.model_copy(update={"at": 0}) for one in read] == [
        one.model_copy(update={"at": 0}) for one in records
    ]
