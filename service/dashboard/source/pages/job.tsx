// One job: its phases live, training curves, estimate, cancel and retry.

import { useEffect, useState } from "preact/hooks";
import { mayDo, post, type Problem } from "../api";
import { duration, timeAgo } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Loading, PageLink, ProblemBox, State } from "../parts/basics";
import { JobProgress } from "../parts/job_progress";
import type { Job } from "../types";

export function JobPage({ id }: { id: string }) {
  const { document: job, problem, reload } = useDocument<Job>(`/v1/jobs/${id}`, (found) =>
    found.finished_at === null ? 2 : null,
  );
  const [failure, setFailure] = useState<Problem>();
  useEffect(() => setFailure(undefined), [id]);
  if (job === undefined) return problem ? <ProblemBox problem={problem} /> : <Loading />;
  const cancel = () => post<Job>(`/v1/jobs/${id}/cancel`).then(reload, setFailure);
  const retry = () => post<Job>(`/v1/jobs/${id}/retry`).then((next) => navigate(`/jobs/${next.id}`), setFailure);
  const took = job.started_at === null ? null : (Date.parse(job.finished_at ?? new Date().toISOString()) - Date.parse(job.started_at)) / 1000;
  return (
    <>
      <h1>
        Job: {job.kind} <State state={job.state} />
      </h1>
      <p class="muted">
        {job.id} · queue {job.queue} · attempt {job.attempt} of {job.max_attempts} · created {timeAgo(job.created_at)}
        {took !== null && ` · ${duration(took)}`}
      </p>
      {job.subject.explanation !== null && (
        <p>
          For <PageLink to={`/explanations/${job.subject.explanation}`}>{job.subject.explanation}</PageLink>
        </p>
      )}
      {job.error !== null && (
        <div class="problem" role="alert">
          <strong>{job.error.message}</strong> ({job.error.type})
        </div>
      )}
      <ProblemBox problem={failure} />
      <p class="actions">
        {job.links.cancel !== null && mayDo("explain") && (
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        )}
        {job.links.retry !== null && mayDo("explain") && (
          <button type="button" onClick={retry}>
            Retry
          </button>
        )}
      </p>
      <JobProgress job={job} />
    </>
  );
}
