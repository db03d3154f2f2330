"""What happened in one run, as records in a file of JSON lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from d4explain.contracts.job_states import JobKind, JobState


class FaultKind(StrEnum):
    KILL_CHILD = "kill the process that runs a job"
    KILL_WORKER = "kill a worker, parent and child"
    STOP_WORKER = "stop a worker until its lease is over"
    KILL_BROKER = "kill the broker"
    LOSE_BROKER = "kill the broker and delete its file"
    KILL_API = "kill an API process"
    KILL_DISPATCHER = "kill the API process that leads the dispatchers"
    FILL_DISK = "fill the disk"
    CUT_COMMIT = "cut a connection after COMMIT"


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    at: float = 0.0  # seconds since the start of the run


class Run(Record):
    """How the run was started."""

    type: Literal["run"] = "run"
    seed: int
    database: str
    jobs: int
    lease_seconds: float
    date: str
    commit: str
    machine: str
    has_older_program: bool = False  # beside a newer one, whose jobs it does not know


class Expected(Record):
    """How each job of a piece of work has to end, by a run without faults."""

    type: Literal["expected"] = "expected"
    work: str
    ending: JobState
    result: str | None  # digest


class Answer(Record):
    """One response to a submission; status 0 if there was none."""

    type: Literal["answer"] = "answer"
    key: str
    work: str
    status: int
    job: str | None = None
    resource: str | None = None


class Read(Record):
    """What a client read about a job."""

    type: Literal["read"] = "read"
    reader: str
    asked_at: float
    job: str
    status: int = 200  # the fields below are null for another one
    state: JobState | None
    has_started: bool = False
    result: str | None = None  # digest; null if the job has none


class Row(Record):
    """What the database held; `attempt` is the fencing token, which counts released attempts."""

    type: Literal["row"] = "row"
    job: str
    state: JobState
    attempt: int


class Fault(Record):
    type: Literal["fault"] = "fault"
    what: FaultKind
    job: str | None = None  # that the killed worker held
    attempt: int | None = None
    was_working: bool = False  # the job was still running in the database after the kill


class Recovery(Record):
    """How long a killed job waited for its next attempt while another worker was idle."""

    type: Literal["recovery"] = "recovery"
    job: str
    seconds: float


class Claimed(Record):
    """An attempt in the log of a worker, which knows job formats up to this one."""

    type: Literal["claimed"] = "claimed"
    job: str
    known_format: int


class Ended(Record):
    """A job of the database at the end of the run, with every state of its event log.

    `part_of` is the accepted job: its own id, or that of the explanation that needs it.
    """

    type: Literal["ended"] = "ended"
    job: str
    kind: JobKind
    part_of: str
    states: list[JobState]
    format: int = 1


class Finished(Record):
    """The last record."""

    type: Literal["finished"] = "finished"


AnyRecord = Run | Expected | Answer | Read | Row | Fault | Recovery | Claimed | Ended | Finished
_ADAPTER: TypeAdapter[AnyRecord] = TypeAdapter(Annotated[AnyRecord, Field(discriminator="type")])
History = Sequence[AnyRecord]


class HistoryWriter:
    """Appends records from several threads; a killed run leaves a readable history."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", buffering=1)
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def now(self) -> float:
        return round(time.monotonic() - self._started, 4)

    def write(self, record: AnyRecord) -> None:
        with self._lock:
            stamped = record.model_copy(update={"at": self.now()})
            self._file.write(stamped.model_dump_json() + "\n")

    def close(self) -> None:
        self._file.close()


def read_history(path: Path) -> list[AnyRecord]:
    return list(_records(path))


def _records(path: Path) -> Iterator[AnyRecord]:
    with path.open() as lines:
        for line in lines:
            yield _ADAPTER.validate_json(line)
