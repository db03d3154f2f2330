// One job: its phases live, training curves, estimate, cancel and retry.

import { duration, timeAgo } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox, State } from "../parts/basics";
import { JobActions } from "../parts/job_actions";
import { JobHistory, JobProgress } from "../parts/job_progress";
import type { Job } from "../types";

const PURPOSES: Record<string, string> = {
  probe: "Checks a registered GNN.",
  train: "Trains a denoiser, the diffusion network that proposes edits. One is trained for each GNN, reference set and goal.",
  witnesses: "Trains small GNNs on the reference set. Later they judge whether other networks share a change of the answer.",
  counterfactual: "Searches for the smallest changes of graphs that change the GNN's answer.",
  class: "Searches for patterns that show what a class looks like to the GNN.",
  provisional: "Answers at once by search, while networks are trained for the final answer.",
  evaluation: "Computes the figures of an evaluation after all of its shards.",
  evaluation_shard: "Explains some instances of an evaluation with every explainer.",
  comparison: "Says what moved between two evaluations beyond noise.",
  predict: "Asks the GNN to classify graphs.",
  replay: "Repeats the work of an answer and compares.",
};

export function JobPage({ id }: { id: string }) {
  const { document: job, problem, reload } = useDocument<Job>(`/v1/jobs/${id}`, (found) =>
    found.finished_at === null ? 2 : null,
  );
  if (job === undefined) return problem ? <ProblemBox problem={problem} /> : <Loading />;
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
      <p>
        {PURPOSES[job.kind]} {job.subject.gnn !== null && <PageLink to={`/gnns/${job.subject.gnn}`}>To its GNN</PageLink>}
        {job.subject.explanation !== null && (
          <>
            {" · "}
            <PageLink to={`/explanations/${job.subject.explanation}`}>To its explanation</PageLink>
          </>
        )}
        {job.subject.evaluation !== null && (
          <>
            {" · "}
            <PageLink to={`/evaluations/${job.subject.evaluation}`}>To its evaluation</PageLink>
          </>
        )}
        {job.subject.comparison !== null && (
          <>
            {" · "}
            <PageLink to={`/comparisons/${job.subject.comparison}`}>To its comparison</PageLink>
          </>
        )}
      </p>
      {job.error !== null && (
        <div class="problem" role="alert">
          <strong>{job.error.message}</strong> ({job.error.type}){job.links.retry !== null && " Retry repeats the work from its last checkpoint, if there is one."}
        </div>
      )}
      <JobActions job={job} onCanceled={reload} onRetried={(next) => navigate(`/jobs/${next.id}`)} />
      <Card title="Progress">
        <JobProgress job={job} />
        <JobHistory job={job} />
      </Card>
    </>
  );
}
