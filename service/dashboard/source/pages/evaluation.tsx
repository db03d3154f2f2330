// One evaluation: its progress, then its figures, curves, patterns and rows.

import { mayDo } from "../api";
import { Curves, EditHistograms } from "../evaluations/curves";
import type { Evaluation, EvaluationResult, ExplainerResult } from "../evaluations/documents";
import { EvaluationProgress } from "../evaluations/evaluation_progress";
import { ComparisonTable, namesOf } from "../evaluations/evaluation_table";
import { FIGURE_GROUPS, METRICS } from "../evaluations/figure_texts";
import { FiguresTable, isMeasured } from "../evaluations/figures_table";
import { FlipMatrices, RecurringEdits } from "../evaluations/patterns";
import { Rows } from "../evaluations/rows";
import { classLabel, gnnLabel, percent, plural, timeAgo } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, PageLink, ProblemBox, State, Warnings } from "../parts/basics";
import { JobActions } from "../parts/job_actions";
import type { Comparison } from "../evaluations/documents";
import type { Dataset, Gnn, Page } from "../types";

const REFRESH_SECONDS = 5; // besides the events
const REPORTS = [
  { format: "html", title: "Audit report" },
  { format: "pdf", title: "PDF" },
  { format: "json", title: "JSON" },
  { format: "cyclonedx", title: "Model card" },
] as const;

export function EvaluationPage({ id }: { id: string }) {
  const evaluation = useDocument<Evaluation>(`/v1/evaluations/${id}`, (found) => (found.job.finished_at === null ? REFRESH_SECONDS : null));
  const gnn = useDocument<Gnn>(evaluation.document ? `/v1/gnns/${evaluation.document.gnn}` : null);
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const one = evaluation.document;
  if (one === undefined) return evaluation.problem ? <ProblemBox problem={evaluation.problem} /> : <Loading />;
  const names = new Map(datasets.document?.items.map((set) => [set.id, `${set.name}@${set.version}`]));
  const className = (number: number) => classLabel(number, gnn.document?.spec.class_names);
  const { result } = one;
  return (
    <>
      <h1>
        Evaluation of {gnnLabel(gnn.document, one.gnn)} <State state={one.state} />
      </h1>
      <p class="muted">
        {one.id} · GNN <PageLink to={`/gnns/${one.gnn}`}>{gnnLabel(gnn.document, one.gnn)}</PageLink> · reference set {names.get(one.dataset) ?? one.dataset} · test set{" "}
        {names.get(one.test_dataset) ?? one.test_dataset}
        {result?.test.held_out_share != null && `, ${percent(result.test.held_out_share)} held out`} · {plural(one.instance_count, "instance")} · {timeAgo(one.created_at)} ·{" "}
        <PageLink to={`/jobs/${one.job.id}`}>job</PageLink>
      </p>
      {one.job.error !== null && (
        <div class="problem" role="alert">
          <strong>{one.job.error.message}</strong>
        </div>
      )}
      {one.state === "canceled" && (
        <p role="status">
          This evaluation was canceled. The rows of {plural(one.explained_count, "instance")} are kept; a retry explains the others only.
        </p>
      )}
      {one.job.finished_at === null && <EvaluationProgress evaluation={one} onChange={evaluation.reload} />}
      <JobActions job={one.job} onCanceled={evaluation.reload} onRetried={evaluation.reload} />
      {result && (
        <>
          <Headline result={result} className={className} />
          <p class="actions">
            {mayDo("explain") && (
              <PageLink to={`/compare?baseline=${one.id}`} class="button">
                Compare
              </PageLink>
            )}
            {REPORTS.map(({ format, title }) => (
              <a key={format} class="button" href={`/v1/evaluations/${one.id}/report?format=${format}`} target="_blank" rel="noopener">
                {title}
              </a>
            ))}
          </p>
          <Card title="Figures">
            <p class="muted">
              The small numbers are 95 % intervals from bootstrap samples of the instances. The same answers give the same figures; only times differ between runs.
            </p>
            <FiguresTable result={result} />
            <Missing result={result} />
          </Card>
          <Curves result={result} />
          <EditHistograms result={result} />
          <FlipMatrices result={result} className={className} />
          <RecurringEdits result={result} />
        </>
      )}
      {one.explained_count > 0 && <Rows evaluation={one} className={className} />}
      {result && (
        <>
          <Comparisons evaluation={one} gnn={gnn.document} />
          <Warnings texts={result.warnings} />
          <Card title="To repeat it">
            <p>
              SHA-256 of all rows without their times: <code class="digest">{result.rows_sha256}</code>. The same request on the same device and versions gives the same hash.
            </p>
            <details>
              <summary>Receipt</summary>
              <pre tabIndex={0}>{JSON.stringify(result.receipt, null, 2)}</pre>
            </details>
          </Card>
        </>
      )}
    </>
  );
}

// The answer in sentences, before any table.
function Headline({ result, className }: { result: EvaluationResult; className: (number: number) => string }) {
  const classes = Object.entries(result.predicted_classes).map(([number, count]) => `${count} ${className(Number(number))}`);
  return (
    <Card title="In short">
      <p class="headline">
        {plural(result.instances, "graph")}. The GNN's classes: {classes.join(", ")}.{" "}
        {result.accuracy === null
          ? "The test set has no labels, so accuracy is not known."
          : `Its accuracy is ${percent(result.accuracy.value)} (${percent(result.accuracy.low)} to ${percent(result.accuracy.high)}).`}
      </p>
      <ul>
        {result.explainers.map((one) => (
          <li key={one.explainer}>
            <strong>{one.explainer}</strong> {sentence(one)}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function sentence(one: ExplainerResult): string {
  const flips = `changes the GNN's class for ${percent(one.validity.value)} of the graphs`;
  const edits = one.edits === null ? "" : `, with ${one.edits.value.toFixed(1)} edits on average`;
  const brittle = one.brittle_share;
  const judged = (one.verdicts.meaningful ?? 0) + (one.verdicts.brittle ?? 0);
  const verdict =
    brittle === null || judged === 0 ? "; nobody judged its answers" : `; ${percent(brittle.value)} of ${plural(judged, "judged answer")} ${judged === 1 ? "is" : "are"} brittle`;
  return `${flips}${edits}${verdict}.`;
}

function Missing({ result }: { result: EvaluationResult }) {
  const missing = METRICS.filter((metric) => !result.metrics.includes(metric.name)).map((metric) => metric.title);
  const figures = FIGURE_GROUPS.flatMap((group) => group.figures);
  const absent = [
    ...figures.filter((text) => !isMeasured(result, text.name)).map((text) => text.title),
    ...(result.explainers.every((one) => one.mmd === null) ? ["MMD"] : []),
    ...(result.explainers.every((one) => one.c2st === null) ? ["C2ST"] : []),
  ];
  return (
    <>
      {missing.length > 0 && <p>Not asked for, so not measured: {missing.join(", ")}.</p>}
      {absent.length > 0 && <p>Figures that no explainer has: {absent.join(", ")}.</p>}
      {result.unjudged_reason !== null && <p class="warning-text">Nobody judged: {result.unjudged_reason}.</p>}
    </>
  );
}

function Comparisons({ evaluation, gnn }: { evaluation: Evaluation; gnn: Gnn | undefined }) {
  const comparisons = useDocument<Page<Comparison>>(`/v1/comparisons?evaluation=${evaluation.id}&limit=20`);
  const items = comparisons.document?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Card title="Comparisons">
      <ComparisonTable comparisons={items} evaluations={[evaluation]} names={namesOf(gnn === undefined ? [] : [gnn], [])} />
    </Card>
  );
}
