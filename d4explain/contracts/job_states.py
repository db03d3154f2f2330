"""States and kinds of jobs, GNNs and denoisers, as they appear in the API."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"

    @property
    def is_terminal(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Queue(StrEnum):
    """One queue per kind of load: long device jobs, short device jobs, CPU jobs."""

    TRAIN = "train"
    SAMPLE = "sample"
    LIGHT = "light"


class JobKind(StrEnum):
    PROBE = "probe"
    PREDICT = "predict"
    TRAIN = "train"  # a denoiser
    WITNESSES = "witnesses"  # trains a witness set
    PROVISIONAL = "provisional"  # the first answer of a counterfactual explanation
    COUNTERFACTUAL = "counterfactual"
    CLASS = "class"
    GLOBAL = "global"  # counterfactuals for many graphs of a class
    REPLAY = "replay"  # repeats the work of an answer
    EVALUATION = "evaluation"  # computes the figures of an evaluation from its shards
    EVALUATION_SHARD = "evaluation_shard"  # explains some instances of a test set
    COMPARISON = "comparison"  # of two evaluations

    @property
    def queue(self) -> Queue:
        return _QUEUES[self]


_QUEUES = {
    JobKind.PROBE: Queue.LIGHT,
    JobKind.PREDICT: Queue.LIGHT,
    JobKind.TRAIN: Queue.TRAIN,
    JobKind.WITNESSES: Queue.TRAIN,
    JobKind.PROVISIONAL: Queue.SAMPLE,
    JobKind.COUNTERFACTUAL: Queue.SAMPLE,
    JobKind.CLASS: Queue.SAMPLE,
    JobKind.GLOBAL: Queue.SAMPLE,
    JobKind.REPLAY: Queue.SAMPLE,
    JobKind.EVALUATION: Queue.SAMPLE,
    JobKind.EVALUATION_SHARD: Queue.SAMPLE,
    JobKind.COMPARISON: Queue.SAMPLE,
}


class Stage(StrEnum):
    """Of an answer: an explanation has up to two."""

    PROVISIONAL = "provisional"
    FINAL = "final"


ExplanationKind = Literal["counterfactual", "class", "global"]


class GnnState(StrEnum):
    PROBING = "probing"
    READY = "ready"
    REJECTED = "rejected"


class TrainingState(StrEnum):
    """Of a denoiser or a witness set."""

    TRAINING = "training"
    READY = "ready"
    FAILED = "failed"


class EventType(StrEnum):
    STATE = "state"
    PROGRESS = "progress"
    ANSWER = "answer"  # an explanation has got an answer
