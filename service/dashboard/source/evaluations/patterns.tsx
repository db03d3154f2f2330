// Which classes flip into which, and which edits recur.

import { percent, plural } from "../format";
import { Card, Table } from "../parts/basics";
import type { EvaluationResult, ExplainerResult, RecurringEdit } from "./documents";
import { FigureCell } from "./figures_table";

export type ClassName = (number: number) => string;

export function FlipMatrices({ result, className }: { result: EvaluationResult; className: ClassName }) {
  return (
    <Card title="Flips by class">
      <div class="columns wide">
        {result.explainers.map((one) => (
          <FlipMatrix key={one.explainer} result={result} explainer={one} className={className} />
        ))}
      </div>
      <p class="muted">Rows are the GNN's classes of the originals, columns those of the answers. Validity is the share of the instances of a class with a verified counterfactual.</p>
    </Card>
  );
}

function FlipMatrix(props: { result: EvaluationResult; explainer: ExplainerResult; className: ClassName }) {
  const { result, explainer, className } = props;
  const before = Object.keys(result.predicted_classes).map(Number).sort((one, other) => one - other);
  const after = [...new Set([...before, ...explainer.flips.map((flip) => flip.new_class)])].sort((one, other) => one - other);
  const most = Math.max(...explainer.flips.map((flip) => flip.count), 1);
  const count = (old: number, next: number) => explainer.flips.find((flip) => flip.old_class === old && flip.new_class === next)?.count ?? 0;
  return (
    <div>
      <h3>{explainer.explainer}</h3>
      <Table caption={`Flips of ${explainer.explainer}`} head={["From", "Instances", ...after.map((one) => `to ${className(one)}`), "Validity"]}>
        {before.map((old) => (
          <tr key={old}>
            <th scope="row">{className(old)}</th>
            <td>{result.predicted_classes[String(old)]}</td>
            {after.map((next) => (
              <td key={next}>
                {old === next ? (
                  <span class="muted">–</span>
                ) : (
                  <>
                    <span class="cell-bar" aria-hidden="true">
                      <span style={{ width: `${(100 * count(old, next)) / most}%` }} />
                    </span>
                    <span class="number">{count(old, next)}</span>
                  </>
                )}
              </td>
            ))}
            <td>
              <FigureCell figure={explainer.classes.find((one) => one.predicted_class === old)?.validity ?? null} unit="share" />
            </td>
          </tr>
        ))}
      </Table>
    </div>
  );
}

const SHOWN = 8;

export function RecurringEdits({ result }: { result: EvaluationResult }) {
  return (
    <Card title="Edits that recur">
      <p class="muted">
        Edits, and pairs of edits at one node, by node types. "In the data" is the share of all edges, or of all absent pairs, of that kind: an edit far above it is preferred,
        one near it is only frequent in the data.
      </p>
      <div class="columns wide">
        {result.explainers.map((one) => (
          <div key={one.explainer}>
            <h3>{one.explainer}</h3>
            {one.recurring_edits.length === 0 ? (
              <p class="muted">No edit recurs in two answers.</p>
            ) : (
              <Table caption={`Recurring edits of ${one.explainer}`} head={["Edit", "Answers", "Share", "In the data"]}>
                {one.recurring_edits.slice(0, SHOWN).map((recurring) => (
                  <tr key={editText(recurring)}>
                    <th scope="row" class="wrap">
                      {editText(recurring)}
                    </th>
                    <td>{recurring.instances}</td>
                    <td>{percent(recurring.share)}</td>
                    <td>{recurring.base_share === null ? <span class="muted">unknown</span> : percent(recurring.base_share)}</td>
                  </tr>
                ))}
              </Table>
            )}
            {one.recurring_edits.length > SHOWN && <p class="muted small">{plural(one.recurring_edits.length - SHOWN, "more pattern")} in the JSON document.</p>}
          </div>
        ))}
      </div>
    </Card>
  );
}

function editText({ edits, shared_type }: RecurringEdit): string {
  const parts = edits.map(({ action, types }) => `${action} ${types[0]}–${types[1]}`);
  return shared_type === null ? parts.join(", ") : `${parts.join(" and ")} at one ${shared_type}`;
}
