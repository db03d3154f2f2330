// The overview: workers and queues, GNNs, recent explanations, validity and transfer over time.

import type { EvaluationSummary } from "../evaluations/documents";
import { EvaluationTable, namesOf } from "../evaluations/evaluation_table";
import { percent, plural } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, PageLink, ProblemBox } from "../parts/basics";
import { ExplanationTable } from "../parts/explanation_table";
import { GnnTable } from "../parts/gnn_table";
import { LinePlot } from "../parts/plots";
import type { Dataset, Explanation, Gnn, Page, Readiness } from "../types";

const REFRESH_SECONDS = 3;
const PLOTTED = 50;
const SHOWN_GNNS = 6;
const SHOWN_EVALUATIONS = 4;

export function OverviewPage() {
  const readiness = useDocument<Readiness>("/readyz", () => REFRESH_SECONDS);
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=50");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=50");
  const recent = useDocument<Page<Explanation>>(`/v1/explanations?limit=${PLOTTED}`, () => REFRESH_SECONDS * 3);
  const evaluations = useDocument<Page<EvaluationSummary>>(`/v1/evaluations?limit=${SHOWN_EVALUATIONS}`, () => REFRESH_SECONDS * 3);
  return (
    <>
      <h1>Overview</h1>
      <ProblemBox problem={readiness.problem ?? recent.problem} />
      {readiness.document && <Service readiness={readiness.document} />}
      {gnns.document?.items.length === 0 && <FirstSteps />}
      {recent.document && <Trends explanations={recent.document.items} />}
      {gnns.document && gnns.document.items.length > 0 && (
        <Card title="GNNs">
          <GnnTable gnns={gnns.document.items.slice(0, SHOWN_GNNS)} />
          <p>
            <PageLink to="/gnns">All GNNs, and a form for another</PageLink>
          </p>
        </Card>
      )}
      {evaluations.document && evaluations.document.items.length > 0 && (
        <Card title="Recent evaluations">
          <EvaluationTable evaluations={evaluations.document.items} names={namesOf(gnns.document?.items ?? [], datasets.document?.items ?? [])} />
          <p>
            <PageLink to="/evaluations">All evaluations and comparisons</PageLink>
          </p>
        </Card>
      )}
      <Card title="Recent explanations">
        {recent.document === undefined ? (
          <Loading />
        ) : (
          <ExplanationTable explanations={recent.document.items.slice(0, 12)} gnns={gnns.document?.items ?? []} datasets={datasets.document?.items ?? []} />
        )}
        <p>
          <PageLink to="/explanations">All explanations</PageLink>
        </p>
      </Card>
    </>
  );
}

function FirstSteps() {
  return (
    <Card title="First steps">
      <ol>
        <li>
          <PageLink to="/gnns">Register a GNN</PageLink>: a trained model, exported by <code>d4explain export</code>.
        </li>
        <li>
          Store a reference set, graphs like those it was trained on: <code>d4explain datasets create</code>.
        </li>
        <li>
          <PageLink to="/ask">Ask</PageLink> what would change its answer for a graph, or what a class looks like to it.
        </li>
      </ol>
    </Card>
  );
}

function Service({ readiness }: { readiness: Readiness }) {
  const devices = [...new Set(readiness.workers.map((worker) => worker.device))].join(", ");
  return (
    <>
      <dl class="figures" aria-label="Service">
        <div>
          <dt>Service</dt>
          <dd>{readiness.status}</dd>
        </div>
        <div>
          <dt>Workers</dt>
          <dd>
            {readiness.workers.length} <small>{devices}</small>
          </dd>
        </div>
        {Object.entries(readiness.queues).map(([queue, counts]) => (
          <div key={queue}>
            <dt>Queue {queue}</dt>
            <dd>
              {counts.running} <small>running</small> {counts.queued} <small>queued</small>
              {counts.waiting > 0 && (
                <>
                  {" "}
                  {counts.waiting} <small>wait for training</small>
                </>
              )}
            </dd>
          </div>
        ))}
      </dl>
      {readiness.reasons.map((reason) => (
        <p key={reason} class="warning-text" role="status">
          {reason}
        </p>
      ))}
    </>
  );
}

// Each point is one explanation, oldest first; many come at the same time, so their order is plotted.
function Trends({ explanations }: { explanations: Explanation[] }) {
  // Classes have no flip rate.
  const ended = explanations.filter((one) => one.result_stage === "final" && typeof one.summary?.flip_rate === "number").reverse();
  const points = (name: "flip_rate" | "transfer_ratio"): [number, number][] =>
    ended.flatMap((one, number) => {
      const value = one.summary?.[name];
      return typeof value === "number" ? [[number, value] as [number, number]] : [];
    });
  const flips = points("flip_rate");
  const transfers = points("transfer_ratio");
  if (flips.length === 0) return null;
  return (
    <Card title={`Validity and transfer, last ${plural(ended.length, "final answer")}`}>
      <div class="plots">
        <LinePlot dots series={{ name: "flip rate", points: flips }} range={[0, 1]} label={`Flip rate over time, last ${percent(flips.at(-1)?.[1] ?? 0)}`} />
        <LinePlot dots series={{ name: "transfer ratio", points: transfers }} range={[0, 1]} label="Share of judged answers that most judges share, over time" />
      </div>
      <p class="muted">
        Each point is an explanation, the newest on the right. Flip rate: the share of an explanation's graphs that have a counterfactual; {percent(mean(flips))} on average. Transfer ratio: the share
        of its judged answers that most other networks share{transfers.length > 0 ? `; ${percent(mean(transfers))} on average` : "; nothing was judged yet"}.
      </p>
    </Card>
  );
}

function mean(points: readonly [number, number][]): number {
  return points.reduce((sum, [, value]) => sum + value, 0) / Math.max(points.length, 1);
}
