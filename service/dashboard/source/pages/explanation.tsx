// One explanation: its progress, and its newest answer in the viewer or the class gallery.

import { useEffect } from "preact/hooks";
import { gnnLabel, kindLabel, timeAgo } from "../format";
import { GlobalView } from "../global/global_view";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox, State, Warnings } from "../parts/basics";
import { ClassGallery } from "../parts/class_gallery";
import { JobActions } from "../parts/job_actions";
import { JobProgress } from "../parts/job_progress";
import { Viewer } from "../viewer/viewer";
import type { Dataset, Explanation, Gnn, Job } from "../types";

export function ExplanationPage({ id, query }: { id: string; query: URLSearchParams }) {
  // Until the first answer. Afterwards only the job is asked: answers can be large.
  const explanation = useDocument<Explanation>(`/v1/explanations/${id}`, (found) =>
    found.job.finished_at === null && found.result_stage === null ? 2 : null,
  );
  const isImproving = explanation.document?.job.finished_at === null && explanation.document.result_stage !== null;
  const followed = useDocument<Job>(isImproving ? `/v1/jobs/${explanation.document?.job.id}` : null, (found) =>
    found.finished_at === null ? 2 : null,
  );
  const hasEnded = isImproving && followed.document != null && followed.document.finished_at !== null;
  useEffect(() => {
    if (hasEnded) explanation.reload();
  }, [hasEnded]);
  const gnn = useDocument<Gnn>(explanation.document ? `/v1/gnns/${explanation.document.gnn}` : null);
  const dataset = useDocument<Dataset>(explanation.document ? `/v1/datasets/${explanation.document.dataset}` : null);
  const one = explanation.document;
  if (one === undefined) return explanation.problem ? <ProblemBox problem={explanation.problem} /> : <Loading />;
  const job = followed.document ?? one.job;
  const result = one.result;
  return (
    <>
      <h1>
        {one.kind === "global" ? "Global counterfactuals" : `${kindLabel(one.kind)} explanation`} <State state={one.state} />
      </h1>
      <p class="muted">
        {one.id} · GNN <PageLink to={`/gnns/${one.gnn}`}>{gnnLabel(gnn.document, one.gnn)}</PageLink> · reference set{" "}
        {dataset.document ? `${dataset.document.name}@${dataset.document.version}` : one.dataset} ·{" "}
        {timeAgo(one.created_at)} · <PageLink to={`/jobs/${one.job.id}`}>job</PageLink>
      </p>
      {one.reason !== null && <p class="warning-text">{one.reason}</p>}
      {one.job.error !== null && one.state !== "succeeded" && (
        <div class="problem" role="alert">
          <strong>{one.job.error.message}</strong>
        </div>
      )}
      {one.job.finished_at === null && (
        <Card title={one.result_stage === "provisional" ? "The final answer is on its way" : "In progress"}>
          <JobProgress job={job} />
        </Card>
      )}
      <JobActions job={one.job} onCanceled={explanation.reload} onRetried={(job) => navigate(`/jobs/${job.id}`)} />
      {result?.kind === "counterfactual" && gnn.document && (
        <>
          {result.stage === "provisional" && (
            <div class="notice">
              <strong>Provisional answer, found by search.</strong> The final answer adds: {result.final_adds.join("; ")}.
            </div>
          )}
          <Viewer key={result.stage} explanation={one} result={result} gnn={gnn.document} dataset={dataset.document} query={query} />
          <Warnings texts={result.warnings} />
        </>
      )}
      {result?.kind === "global" && gnn.document && (
        <>
          <GlobalView result={result} gnn={gnn.document} dataset={one.dataset} />
          <Warnings texts={result.warnings} />
        </>
      )}
      {result?.kind === "class" && gnn.document && (
        <>
          <ClassGallery result={result} gnn={gnn.document} />
          <Warnings texts={result.warnings} />
        </>
      )}
    </>
  );
}
