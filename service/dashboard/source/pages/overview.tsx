// The overview: workers and queues, GNNs, recent explanations, validity and transfer over time.

import { percent } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, PageLink, ProblemBox } from "../parts/basics";
import { ExplanationTable } from "../parts/explanation_table";
import { LinePlot } from "../parts/plots";
import type { Dataset, Explanation, Gnn, Page, Readiness } from "../types";

const REFRESH_SECONDS = 3;
const PLOTTED = 100;

export function OverviewPage() {
  const readiness = useDocument<Readiness>("/readyz", () => REFRESH_SECONDS);
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=50");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=50");
  const recent = useDocument<Page<Explanation>>(`/v1/explanations?limit=${PLOTTED}`, () => REFRESH_SECONDS * 3);
  return (
    <>
      <h1>Overview</h1>
      <ProblemBox problem={readiness.problem ?? recent.problem} />
      {readiness.document && <Service readiness={readiness.document} />}
      {recent.document && <Trends explanations={recent.document.items} />}
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

// Each point is one explanation, oldest first.
function Trends({ explanations }: { explanations: Explanation[] }) {
  const ended = explanations.filter((one) => one.result_stage === "final").reverse();
  const points = (name: "flip_rate" | "transfer_ratio"): [number, number][] =>
    ended.flatMap((one) => {
      const value = one.summary?.[name];
      return typeof value === "number" ? [[Date.parse(one.created_at), value] as [number, number]] : [];
    });
  const flips = points("flip_rate");
  const transfers = points("transfer_ratio");
  if (flips.length === 0) return null;
  return (
    <Card title={`Validity and transfer of the last ${ended.length} final answers`}>
      <div class="plots">
        <LinePlot series={{ name: "flip rate", points: flips }} range={[0, 1]} label={`Flip rate over time, last ${percent(flips.at(-1)?.[1] ?? 0)}`} />
        <LinePlot series={{ name: "transfer ratio", points: transfers }} range={[0, 1]} label="Share of judged answers that most judges share, over time" />
      </div>
      <p class="muted">
        The flip rate of an explanation is the share of its graphs that have a counterfactual. The transfer ratio is the share of its
        judged answers that other networks share. Both average {percent(mean(flips))} and {transfers.length > 0 ? percent(mean(transfers)) : "–"}.
      </p>
    </Card>
  );
}

function mean(points: readonly [number, number][]): number {
  return points.reduce((sum, [, value]) => sum + value, 0) / Math.max(points.length, 1);
}
