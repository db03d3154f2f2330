// What a running evaluation does, live: its trainings, the instances explained so far, time left.

import { useEffect } from "preact/hooks";
import { duration } from "../format";
import { useDocument } from "../loading";
import { Card, PageLink, State } from "../parts/basics";
import { useJobEvents } from "../parts/job_events";
import { Bar } from "../parts/job_progress";
import type { Denoiser, Job, Page } from "../types";
import type { Evaluation } from "./documents";

const REFRESH_SECONDS = 3;

export function EvaluationProgress({ evaluation, onChange }: { evaluation: Evaluation; onChange: () => void }) {
  const { job } = evaluation;
  const { phases, progress } = useJobEvents(job.id);
  const newest = phases.at(-1)?.name;
  const isComputing = newest === "computing figures";
  const done = progress?.phase === "explaining" ? (progress.step ?? 0) : evaluation.explained_count;
  useEffect(onChange, [newest, done]);
  const left = progress?.phase === "explaining" ? progress.metrics?.eta_seconds : undefined;
  return (
    <Card title="In progress">
      {evaluation.state === "queued" && <Trainings evaluation={evaluation} />}
      <p role="status">
        {isComputing
          ? "All instances are explained. The figures are computed now."
          : `${done} of ${evaluation.instance_count} instances explained${left === undefined ? "" : `; about ${duration(left)} left, then the figures are computed`}.`}
      </p>
      <progress max={evaluation.instance_count} value={isComputing ? evaluation.instance_count : done} aria-label="Explained instances" />
      <p class="muted">
        Every few instances are a shard that any worker explains. {done > 0 && "The rows below are those so far. "}The figures come when all are explained.
      </p>
    </Card>
  );
}

// The trainings that no shard can start without.
function Trainings({ evaluation }: { evaluation: Evaluation }) {
  const { denoiser, gnn, job } = evaluation;
  const training = useDocument<Denoiser>(denoiser === null ? null : `/v1/denoisers/${denoiser}`, (found) => (found.job.finished_at === null ? REFRESH_SECONDS : null));
  const witnesses = useDocument<Page<Job>>(job.subject.witness_set === null ? null : `/v1/jobs?kind=witnesses&gnn=${gnn}&limit=20`, () => REFRESH_SECONDS);
  const judging = witnesses.document?.items.find((one) => one.subject.witness_set === job.subject.witness_set);
  const trainings = [
    { name: "Witnesses", job: judging },
    { name: "Denoiser", job: training.document?.job },
  ];
  return (
    <>
      {trainings.map(
        (one) =>
          one.job !== undefined &&
          one.job.finished_at === null && (
            <div key={one.name} class="phase">
              <PageLink to={`/jobs/${one.job.id}`}>{one.name}</PageLink> <State state={one.job.state} />{" "}
              {one.job.seconds_left !== null && <span class="muted">at most {duration(one.job.seconds_left)}</span>}
              {one.job.progress && <Bar progress={one.job.progress} />}
            </div>
          ),
      )}
    </>
  );
}
