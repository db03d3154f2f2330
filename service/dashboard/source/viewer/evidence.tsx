// What speaks for an answer: verdict and transfer, typicality, MMD against its null, each in a sentence.

import { percent, plural } from "../format";
import type { Counterfactual, CounterfactualAnswer, CounterfactualResult, Mmd, Typicality } from "../types";
import { Card, VerdictPill } from "../parts/basics";
import { Strip } from "../parts/plots";

export function Evidence(props: { answer: CounterfactualAnswer; chosen: Counterfactual; result: CounterfactualResult }) {
  const { chosen, result } = props;
  return (
    <div class="columns evidence">
      <Transfer chosen={chosen} reason={result.unjudged_reason} />
      <Card title="Typicality">
        {props.answer.typicality === null ? (
          <p>There is no figure. It needs a trained denoiser and a reference set of at least 500 graphs.</p>
        ) : (
          <>
            <TypicalityOf name="The original" typicality={props.answer.typicality} />
            <TypicalityOf name="The answer" typicality={chosen.typicality ?? null} />
          </>
        )}
        {(chosen.unseen ?? []).length > 0 && (
          <>
            <p>The reference set lacks:</p>
            <ul>
              {chosen.unseen?.map((pattern) => (
                <li key={pattern.detail}>{pattern.detail}</li>
              ))}
            </ul>
          </>
        )}
      </Card>
      <MmdOf mmd={result.mmd} />
      {chosen.order && (
        <Card title="Order">
          <p>{chosen.order.reason}</p>
        </Card>
      )}
    </div>
  );
}

function Transfer({ chosen, reason }: { chosen: Counterfactual; reason: string | null }) {
  const transfers = chosen.transfers;
  return (
    <Card title="Do other networks agree?">
      {chosen.verdict && <VerdictPill verdict={chosen.verdict} />}
      {transfers ? (
        <>
          <p class="judges" aria-hidden="true">
            {Array.from({ length: transfers.asked }, (_, judge) => (
              <span key={judge} class={judge < transfers.shared ? "judge shares" : judge < transfers.agreeing ? "judge" : "judge unable"} />
            ))}
          </p>
          <p>
            {transfers.shared} of {plural(transfers.agreeing, "judge")} that can tell share the flip
            {transfers.agreeing < transfers.asked && `; ${transfers.asked - transfers.agreeing} give the original another class`}.
          </p>
        </>
      ) : (
        <p>Nobody judged this answer{reason === null ? "" : `: ${reason}`}.</p>
      )}
    </Card>
  );
}

function TypicalityOf({ name, typicality }: { name: string; typicality: Typicality | null }) {
  if (typicality === null) return <p class="muted">{name}: no figure.</p>;
  const sentence = `${name} is at least as likely as ${percent(typicality.value)} of ${typicality.calibration_graphs} held-out graphs of its size${typicality.low ? ": unusual" : ""}.`;
  return (
    <div>
      <Strip value={typicality.value} low={0} high={1} band={[0.05, 1]} label={sentence} />
      <p class={typicality.low ? "warning-text" : ""}>{sentence}</p>
    </div>
  );
}

function MmdOf({ mmd }: { mmd: Mmd | null }) {
  if (mmd === null) return null;
  const [low, high] = [mmd.null_quantiles["0.05"] ?? 0, mmd.null_quantiles["0.95"] ?? 0];
  const few = mmd.graph_count < 10;
  const sentence = few
    ? `The MMD of ${plural(mmd.graph_count, "answer")} says little; compare at least ten.`
    : mmd.sum > high
      ? `The ${mmd.graph_count} answers are farther from the reference set than 95 % of equally large samples of it.`
      : `The ${mmd.graph_count} answers are no farther from the reference set than equally large samples of it usually are.`;
  return (
    <Card title="MMD against its null">
      <Strip value={mmd.sum} low={0} high={Math.max(high * 1.5, mmd.sum * 1.1, 1e-6)} band={[low, high]} label={sentence} />
      <p>
        {sentence} MMD {mmd.sum.toFixed(3)}, null {low.toFixed(3)} to {high.toFixed(3)}, p = {mmd.p_value.toFixed(2)}.
      </p>
    </Card>
  );
}
