// One comparison: what moved between two evaluations, by how much, and beyond which noise.

import type { Comparison, EvaluationSummary, Moved } from "../evaluations/documents";
import { namesOf, shortId } from "../evaluations/evaluation_table";
import { COMPARED, figureValue, signedValue } from "../evaluations/figure_texts";
import { gnnLabel, percent, plural, timeAgo } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, PageLink, ProblemBox, State, Table, Warnings } from "../parts/basics";
import { JobActions } from "../parts/job_actions";
import { JobProgress } from "../parts/job_progress";
import { ZeroInterval } from "../parts/plots";
import type { Gnn, Page } from "../types";

const REFRESH_SECONDS = 1;
type Result = NonNullable<Comparison["result"]>;

export function ComparisonPage({ id }: { id: string }) {
  const { document: one, problem, reload } = useDocument<Comparison>(`/v1/comparisons/${id}`, (found) => (found.job.finished_at === null ? REFRESH_SECONDS : null));
  const baseline = useDocument<EvaluationSummary>(one ? `/v1/evaluations/${one.baseline}` : null);
  const candidate = useDocument<EvaluationSummary>(one ? `/v1/evaluations/${one.candidate}` : null);
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  if (one === undefined) return problem ? <ProblemBox problem={problem} /> : <Loading />;
  const { gnns: byId } = namesOf(gnns.document?.items ?? [], []);
  const label = (id: string, evaluation: EvaluationSummary | undefined) =>
    evaluation === undefined ? shortId(id) : gnnLabel(byId.get(evaluation.gnn), evaluation.gnn);
  return (
    <>
      <h1>
        Comparison <State state={one.state} />
      </h1>
      <p class="muted">
        {one.id} · {timeAgo(one.created_at)} · <PageLink to={`/jobs/${one.job.id}`}>job</PageLink>
      </p>
      <dl class="figures">
        <div>
          <dt>Baseline</dt>
          <dd>
            <PageLink to={`/evaluations/${one.baseline}`}>{label(one.baseline, baseline.document)}</PageLink> <small>{one.baseline_explainer}</small>
          </dd>
        </div>
        <div>
          <dt>Candidate</dt>
          <dd>
            <PageLink to={`/evaluations/${one.candidate}`}>{label(one.candidate, candidate.document)}</PageLink> <small>{one.candidate_explainer}</small>
          </dd>
        </div>
        {one.result && (
          <div>
            <dt>Graphs that both have</dt>
            <dd>{one.result.instances}</dd>
          </div>
        )}
        {one.result?.agreement != null && (
          <div>
            <dt>Same class by both GNNs</dt>
            <dd>{percent(one.result.agreement)}</dd>
          </div>
        )}
      </dl>
      {one.job.error !== null && (
        <div class="problem" role="alert">
          <strong>{one.job.error.message}</strong>
        </div>
      )}
      {one.job.finished_at === null && (
        <Card title="In progress">
          <p role="status">{one.state === "queued" ? "Waiting for a worker." : "The rows of both evaluations are compared."}</p>
          <JobProgress job={one.job} />
        </Card>
      )}
      <JobActions job={one.job} onCanceled={reload} onRetried={reload} />
      {one.result && <ResultOf result={one.result} />}
    </>
  );
}

function ResultOf({ result }: { result: Result }) {
  const better = result.figures.filter((figure) => figure.moved && figure.worse === false).map((figure) => figure.figure);
  const other = result.moved.filter((name) => !result.worse.includes(name) && !better.includes(name));
  const parts = [
    result.worse.length > 0 && `Worse: ${titles(result.worse)}.`,
    better.length > 0 && `Better: ${titles(better)}.`,
    other.length > 0 && `Changed, neither worse nor better: ${titles(other)}.`,
  ].filter((part) => part !== false);
  return (
    <>
      <div class={result.worse.length > 0 ? "problem" : "notice"}>
        <strong>{parts.length === 0 ? "No figure moved beyond noise." : parts.join(" ")}</strong>
        <p>{noiseText(result)}</p>
        <p class="muted">{WORSE[result.agreement === null ? "explainers" : "gnns"]}</p>
        {result.retrained.length > 0 && (
          <p>
            Retrained:{" "}
            {result.retrained.map((id) => (
              <span key={id}>
                <PageLink to={`/evaluations/${id}`}>{shortId(id)}</PageLink>{" "}
              </span>
            ))}
          </p>
        )}
      </div>
      <Card title="Figures">
        {result.figures.length === 0 ? (
          <p>Every figure that both evaluations have is equal for all instances.</p>
        ) : (
          <Table caption="Compared figures" head={["Figure", "Finding", "Baseline", "Candidate", ...(result.noise === "retraining" ? ["Expected"] : []), "Candidate − baseline", "Effect size", "Corrected p"]}>
            {result.figures.map((figure) => (
              <FigureRow key={figure.figure} figure={figure} result={result} />
            ))}
          </Table>
        )}
        <p class="muted">
          Lines are 95 % intervals of candidate minus baseline, with 0 in the middle; each has its own scale. Effect size:{" "}
          {result.noise === "retraining" ? "difference from what is expected over the standard deviation of trainings" : "difference over the standard deviation of the paired differences of instances"}. p
          values are corrected by Holm's method over all {plural(result.figures.length, "figure")}; moved means below {result.alpha}. Figures that one evaluation lacks are left out.
        </p>
      </Card>
      <Warnings texts={result.warnings} />
    </>
  );
}

const WORSE = {
  gnns: "Worse, for a GNN: lower accuracy or robustness, more validity, more one-edit flips, fewer edits or more brittle answers. More validity and fewer edits mean that it changes its mind more easily.",
  explainers: "Worse, for an explainer: less validity, more edits, more brittle answers, less typicality or stability, more GNN evaluations.",
};

function noiseText(result: Result): string {
  if (result.noise === "retraining") {
    return `The noise allowed for is that of retraining: the spread of ${result.trainings} trainings of the baseline's recipe. The candidate is tested against what one more training would give.`;
  }
  return result.agreement === null
    ? "Both are of one GNN, so nothing was retrained. The noise allowed for is which graphs were drawn: a paired test over the instances."
    : "The noise allowed for is only which graphs were drawn. Another training of the same GNN may differ as much.";
}

function FigureRow({ figure, result }: { figure: Moved; result: Result }) {
  const text = COMPARED[figure.figure];
  const unit = text?.unit ?? "number";
  const change = figure.candidate - figure.baseline;
  const interval = `${signedValue(figure.low, unit)} to ${signedValue(figure.high, unit)}`;
  return (
    <tr>
      <th scope="row" class="meaning">
        {text?.title ?? figure.figure}
        <span class="muted small">{text?.means}</span>
      </th>
      <td>
        <Finding figure={figure} />
      </td>
      <td>{figureValue(figure.baseline, unit)}</td>
      <td>{figureValue(figure.candidate, unit)}</td>
      {result.noise === "retraining" && <td>{figureValue(figure.expected, unit)}</td>}
      <td>
        <ZeroInterval value={change} low={figure.low} high={figure.high} label={`${signedValue(change, unit)}, 95 % interval ${interval}`} />
        <span class="number">{signedValue(change, unit)}</span> <span class="muted small">{interval}</span>
      </td>
      <td>{figure.effect === null ? <span class="muted">unknown: no spread</span> : signedValue(figure.effect, "number")}</td>
      <td>{figure.corrected_p_value < 0.001 ? "< 0.001" : figure.corrected_p_value.toFixed(3)}</td>
    </tr>
  );
}

function Finding({ figure }: { figure: Moved }) {
  if (!figure.moved) return <span class="pill">within noise</span>;
  if (figure.worse === null) return <span class="pill finding-moved">↕ changed</span>;
  return figure.worse ? <span class="pill finding-worse">✗ worse</span> : <span class="pill finding-better">✓ better</span>;
}

function titles(names: readonly string[]): string {
  return names.map((name) => COMPARED[name]?.title ?? name).join(", ");
}
