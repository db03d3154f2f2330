// The figures of all explainers side by side, each with its interval and a sentence on its meaning.

import { type ComponentChildren, Fragment } from "preact";
import { VerdictPill } from "../parts/basics";
import { Strip } from "../parts/plots";
import type { Mmd, Verdict } from "../types";
import type { EvaluationResult, ExplainerResult, Figure, FigureName, Interval } from "./documents";
import { FIGURE_GROUPS, figureValue, type FigureText } from "./figure_texts";

const FEW_ANSWERS = 10;
const VERDICTS: readonly Verdict[] = ["meaningful", "brittle", "unjudged"];

export function isMeasured({ explainers }: EvaluationResult, name: FigureName): boolean {
  return explainers.some((one) => one[name] !== null);
}

export function FiguresTable({ result }: { result: EvaluationResult }) {
  const { explainers } = result;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Figures of the explainers">
      <table class="comparison-of-explainers">
        <caption class="hidden">Figures of the explainers</caption>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            {explainers.map((one) => (
              <th key={one.explainer} scope="col">
                {one.explainer}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {FIGURE_GROUPS.map((group, number) => (
            <Fragment key={group.title}>
              <tr>
                <th scope="colgroup" colSpan={explainers.length + 1} class="group">
                  {group.title}
                </th>
              </tr>
              {group.figures.filter((text) => isMeasured(result, text.name)).map((text) => (
                <FigureRow key={text.name} text={text} explainers={explainers} />
              ))}
              {number === 1 && <BeliefRows explainers={explainers} />}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// One figure of all explainers, and what it means.
function Row(props: { title: string; means: string; explainers: readonly ExplainerResult[]; cell: (one: ExplainerResult) => ComponentChildren }) {
  return (
    <tr>
      <th scope="row" class="meaning">
        {props.title}
        <span class="muted small">{props.means}</span>
      </th>
      {props.explainers.map((one) => (
        <td key={one.explainer}>{props.cell(one)}</td>
      ))}
    </tr>
  );
}

function FigureRow({ text, explainers }: { text: FigureText; explainers: readonly ExplainerResult[] }) {
  const before = text.before;
  return (
    <Row
      title={text.title}
      means={text.means}
      explainers={explainers}
      cell={(one) => (
        <>
          <FigureCell figure={one[text.name]} unit={text.unit} />
          {before !== undefined && one[before] !== null && (
            <div class="muted small">
              before: <FigureCell figure={one[before]} unit={text.unit} />
            </div>
          )}
        </>
      )}
    />
  );
}

export function FigureCell({ figure, unit }: { figure: Figure | Interval | null; unit: FigureText["unit"] }) {
  if (figure === null) return <span class="muted">no figure</span>;
  return (
    <>
      <span class="number strong">{figureValue(figure.value, unit)}</span>{" "}
      <span class="muted small">
        {figureValue(figure.low, unit)} to {figureValue(figure.high, unit)}
      </span>
    </>
  );
}

// What judges, MMD and C2ST say about the answers.
function BeliefRows({ explainers }: { explainers: readonly ExplainerResult[] }) {
  return (
    <>
      <Row
        title="Verdicts"
        means="Answers by verdict: meaningful if most judges that agree on the original share the flip, else brittle; unjudged if nobody could tell."
        explainers={explainers}
        cell={({ verdicts }) => <Verdicts counts={verdicts} />}
      />
      {explainers.some((one) => one.mmd !== null) && (
        <Row
          title="MMD against its null"
          means="Distance of the answers to the reference set; the null is that of equally large samples of it, 5 % to 95 %. Before: of the originals."
          explainers={explainers}
          cell={(one) => <MmdCell mmd={one.mmd} before={one.mmd_before} />}
        />
      )}
      {explainers.some((one) => one.c2st !== null) && (
        <Row
          title="C2ST"
          means="AUC of a classifier that tells answers from originals; 0.5 if it cannot. It needs 20 answers."
          explainers={explainers}
          cell={({ c2st }) => <FigureCell figure={c2st === null ? null : { ...c2st, value: c2st.auc }} unit="number" />}
        />
      )}
    </>
  );
}

function Verdicts({ counts }: { counts: ExplainerResult["verdicts"] }) {
  if (Object.keys(counts).length === 0) return <span class="muted">nobody judged</span>;
  return (
    <>
      {VERDICTS.filter((verdict) => (counts[verdict] ?? 0) > 0).map((verdict) => (
        <div key={verdict} class="verdict-count">
          <span class="number">{counts[verdict]}</span> <VerdictPill verdict={verdict} />
        </div>
      ))}
    </>
  );
}

function MmdCell({ mmd, before }: { mmd: Mmd | null; before: Mmd | null }) {
  if (mmd === null) return <span class="muted">no figure</span>;
  const [low, high] = [mmd.null_quantiles["0.05"] ?? 0, mmd.null_quantiles["0.95"] ?? 0];
  const sentence = mmd.graph_count < FEW_ANSWERS ? "few answers: it says little" : mmd.sum > high ? "farther than 95 % of samples" : "no farther than samples usually are";
  return (
    <>
      <span class="number strong">{mmd.sum.toFixed(3)}</span> <span class="muted small">{sentence}</span>
      <Strip
        value={mmd.sum}
        low={0}
        high={Math.max(high * 1.5, mmd.sum * 1.1, 1e-6)}
        band={[low, high]}
        label={`MMD ${mmd.sum.toFixed(3)}; null ${low.toFixed(3)} to ${high.toFixed(3)}`}
      />
      <span class="muted small">
        null {low.toFixed(3)} to {high.toFixed(3)}, p = {mmd.p_value.toFixed(2)}
        {before !== null && `; before ${before.sum.toFixed(3)}`}
      </span>
    </>
  );
}
