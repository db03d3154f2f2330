// CF-ACC and fidelity by modification ratio, and the number of edits.

import { plural } from "../format";
import { Card } from "../parts/basics";
import { BarPlot, CurvesPlot, LINE_STYLES, type Series } from "../parts/plots";
import type { CurvePoint, EvaluationResult, ExplainerResult } from "./documents";
import { figureValue } from "./figure_texts";

export function Curves({ result }: { result: EvaluationResult }) {
  const parts = Array.from({ length: Math.ceil(result.explainers.length / LINE_STYLES) }, (_, part) =>
    result.explainers.slice(part * LINE_STYLES, (part + 1) * LINE_STYLES),
  );
  return (
    <Card title="Curves">
      {parts.map((explainers) => (
        <CurvePair key={explainers[0]?.explainer} explainers={explainers} />
      ))}
      <p>
        CF-ACC is the share of instances with an answer of at most this modification ratio: edits over edges of the original. No explainer can be above the ceiling, the
        share if one edit always flipped the GNN. Fidelity is the mean fall of the probability of the class predicted before, of answers within the ratio; no answer
        counts as 0.
      </p>
      <details>
        <summary>The curves as a table</summary>
        <CurveTable explainers={result.explainers} />
      </details>
    </Card>
  );
}

function CurvePair({ explainers }: { explainers: readonly ExplainerResult[] }) {
  const lines = (value: (point: CurvePoint) => number): Series[] =>
    explainers.map((one) => ({ name: one.explainer, points: one.curve.map((point) => [point.ratio, value(point)]) }));
  const said = (name: "cf_acc_auc" | "fidelity_auc") =>
    explainers.map((one) => `${one.explainer} ${one[name] === null ? "none" : figureValue(one[name].value, "number")}`).join(", ");
  const ceiling = explainers[0]?.curve.map((point): [number, number] => [point.ratio, point.ceiling]) ?? [];
  return (
    <div class="plots">
      <CurvesPlot
        title="CF-ACC by modification ratio"
        series={lines((point) => point.strict)}
        bound={{ name: "ceiling", points: ceiling }}
        xTitle="modification ratio"
        yTitle="share of instances"
        label={`CF-ACC curves; areas: ${said("cf_acc_auc")}`}
      />
      <CurvesPlot
        title="Fidelity by modification ratio"
        series={lines((point) => point.fidelity)}
        xTitle="modification ratio"
        yTitle="mean fidelity"
        label={`Fidelity curves; areas: ${said("fidelity_auc")}`}
      />
    </div>
  );
}

function CurveTable({ explainers }: { explainers: readonly ExplainerResult[] }) {
  const ratios = explainers[0]?.curve.map((point) => point.ratio) ?? [];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Curves">
      <table>
        <caption class="hidden">CF-ACC and fidelity by modification ratio</caption>
        <thead>
          <tr>
            <th scope="col">Curve</th>
            {ratios.map((ratio) => (
              <th key={ratio} scope="col">
                {ratio.toFixed(2)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {explainers.flatMap((one) =>
            (["strict", "fidelity"] as const).map((name) => (
              <tr key={`${one.explainer} ${name}`}>
                <th scope="row">
                  {one.explainer}, {name === "strict" ? "CF-ACC" : "fidelity"}
                </th>
                {one.curve.map((point) => (
                  <td key={point.ratio}>{point[name].toFixed(2)}</td>
                ))}
              </tr>
            )),
          )}
          <tr>
            <th scope="row">ceiling of CF-ACC</th>
            {explainers[0]?.curve.map((point) => (
              <td key={point.ratio}>{point.ceiling.toFixed(2)}</td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

export function EditHistograms({ result }: { result: EvaluationResult }) {
  const most = Math.max(...result.explainers.flatMap((one) => Object.values(one.edit_histogram)), 1);
  const widest = Math.max(...result.explainers.flatMap((one) => Object.keys(one.edit_histogram).map(Number)), 1);
  return (
    <Card title="How many edits it takes">
      <div class="plots">
        {result.explainers.map((one) => {
          const flipped = Object.values(one.edit_histogram).reduce((sum, count) => sum + count, 0);
          const counts = Object.entries(one.edit_histogram);
          return (
            <BarPlot
              key={one.explainer}
              title={`${one.explainer}: ${plural(flipped, "answer")} for ${plural(result.instances, "instance")}`}
              counts={{ [widest]: 0, ...one.edit_histogram }}
              max={most}
              xTitle="edits of the answer"
              label={counts.length === 0 ? "No answers" : `Answers by edits: ${counts.map(([edits, count]) => `${edits}: ${count}`).join(", ")}`}
            />
          );
        })}
      </div>
      <p class="muted">Each bar is the number of answers with that many edits. All plots have the same axes.</p>
    </Card>
  );
}
