"""The tables of explanations and of their replays."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.job_states import JobState, Stage
from store.database.tables.base import DIGEST, ID, JsonObject, Resource


class Explanation(Resource):
    """A request for an explanation and its answers: the final one, and a provisional one before it.

    `job_id` and `result_digest` belong to the final answer. An answer is written once.
    """

    __tablename__ = "explanations"
    __table_args__ = (
        Index("explanations_by_time", "tenant_id", "created_at", "id"),
        Index("explanations_by_job", "job_id"),
        Index("explanations_by_provisional_job", "provisional_job_id"),
    )

    kind: Mapped[str] = mapped_column(String(24))  # counterfactual | class | global
    # No foreign keys: an explanation outlives the resources that it used.
    gnn_id: Mapped[str] = mapped_column(ID)
    dataset_id: Mapped[str] = mapped_column(ID)
    denoiser_id: Mapped[str | None] = mapped_column(ID)  # None for the explainer `search`
    witness_set_id: Mapped[str | None] = mapped_column(ID)  # None if there are no witnesses
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    request_digest: Mapped[str] = mapped_column(DIGEST)
    result_digest: Mapped[str | None] = mapped_column(DIGEST)
    # No foreign key: SQLite cannot add one in place. None without a provisional answer.
    provisional_job_id: Mapped[str | None] = mapped_column(ID)
    provisional_digest: Mapped[str | None] = mapped_column(DIGEST)
    summary: Mapped[JsonObject | None]  # of the newest answer
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`

    @property
    def result_stage(self) -> Stage | None:
        """Of the newest answer."""
        if self.result_digest is not None:
            return Stage.FINAL
        return None if self.provisional_digest is None else Stage.PROVISIONAL

    def state_after(self, ended: JobState) -> JobState:
        """Its state once its job has ended: with a provisional answer, it succeeds anyway."""
        has_answer = self.provisional_digest is not None
        may_stand_in = ended in (JobState.FAILED, JobState.EXPIRED)
        return JobState.SUCCEEDED if has_answer and may_stand_in else ended


class Replay(Resource):
    """A repetition of the work of one answer, and what it found."""

    __tablename__ = "replays"
    __table_args__ = (Index("replays_by_explanation", "explanation_id", "created_at", "id"),)

    explanation_id: Mapped[str] = mapped_column(
        ID, ForeignKey("explanations.id", ondelete="CASCADE")
    )
    stage: Mapped[Stage]
    answer_digest: Mapped[str] = mapped_column(DIGEST)
    # No foreign key: a replay outlives its job.
    job_id: Mapped[str] = mapped_column(ID)
    report: Mapped[JsonObject | None]
