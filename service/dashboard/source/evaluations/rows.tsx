// The rows of an evaluation: filtered, page by page, and as files.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Problem } from "../api";
import { percent } from "../format";
import { Card, Loading, ProblemBox, Table, VerdictPill } from "../parts/basics";
import type { Page } from "../types";
import type { Evaluation, EvaluationRow } from "./documents";
import type { ClassName } from "./patterns";

const PAGE = 20;
const FEW = 25; // answers that the filter for most edits aims at

const FILTERS: readonly { name: string; title: string; query: string }[] = [
  { name: "all", title: "all", query: "" },
  { name: "not-flipped", title: "not flipped", query: "found=false" },
  { name: "brittle", title: "brittle", query: "verdict=brittle" },
  { name: "meaningful", title: "meaningful", query: "verdict=meaningful" },
  { name: "unjudged", title: "unjudged", query: "verdict=unjudged" },
];

export function Rows({ evaluation, className }: { evaluation: Evaluation; className: ClassName }) {
  const [filter, setFilter] = useState("all");
  const [explainer, setExplainer] = useState("");
  const threshold = mostEdits(evaluation, explainer);
  const choices = threshold === null ? FILTERS : [...FILTERS, { name: "most-edits", title: `most edits: ${threshold} or more`, query: `min_edits=${threshold}` }];
  const query = [choices.find((one) => one.name === filter)?.query ?? "", explainer === "" ? "" : `explainer=${explainer}`].filter((part) => part !== "").join("&");
  return (
    <Card title="Rows">
      <div class="row">
        <label>
          Show
          <select value={filter} onChange={(event) => setFilter(event.currentTarget.value)}>
            {choices.map((one) => (
              <option key={one.name} value={one.name}>
                {one.title}
              </option>
            ))}
          </select>
        </label>
        <label>
          Explainer
          <select value={explainer} onChange={(event) => setExplainer(event.currentTarget.value)}>
            <option value="">all</option>
            {evaluation.explainers.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {evaluation.explained_count === evaluation.instance_count && (
          <a class="button" href={`${evaluation.links.rows}?${[query, "format=csv"].filter((part) => part !== "").join("&")}`} download>
            {query === "" ? "CSV of all rows" : "CSV of these rows"}
          </a>
        )}
        {evaluation.links.parquet !== null && (
          <a class="button" href={evaluation.links.parquet} download>
            Parquet of all rows
          </a>
        )}
      </div>
      <RowPages key={`${query} ${evaluation.explained_count}`} path={`${evaluation.links.rows}?limit=${PAGE}${query === "" ? "" : `&${query}`}`} className={className} />
    </Card>
  );
}

// The smallest number of edits that at most FEW answers reach; null if all answers have as many.
function mostEdits(evaluation: Evaluation, explainer: string): number | null {
  const counts = new Map<number, number>();
  for (const one of evaluation.result?.explainers ?? []) {
    if (explainer !== "" && one.explainer !== explainer) continue;
    for (const [edits, count] of Object.entries(one.edit_histogram)) counts.set(Number(edits), (counts.get(Number(edits)) ?? 0) + count);
  }
  const descending = [...counts.keys()].sort((one, other) => other - one);
  if (descending.length < 2) return null;
  let chosen = descending[0] ?? 1;
  let reached = 0;
  for (const edits of descending) {
    reached += counts.get(edits) ?? 0;
    if (reached > FEW) break;
    chosen = edits;
  }
  return chosen;
}

function RowPages({ path, className }: { path: string; className: ClassName }) {
  const [rows, setRows] = useState<EvaluationRow[]>();
  const [cursor, setCursor] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem>();
  const add = (before: EvaluationRow[]) => (page: Page<EvaluationRow>) => {
    setRows([...before, ...page.items]);
    setCursor(page.next_cursor);
    setProblem(undefined);
  };
  useEffect(() => {
    const abort = new AbortController();
    get<Page<EvaluationRow>>(path, abort.signal).then(add([]), (error: Problem) => {
      if (!abort.signal.aborted) setProblem(error);
    });
    return () => abort.abort();
  }, [path]);
  if (rows === undefined) return problem ? <ProblemBox problem={problem} /> : <Loading />;
  const shown = COLUMNS.filter((column) => rows.some((row) => column.has(row)));
  const more = () => get<Page<EvaluationRow>>(`${path}&cursor=${cursor}`).then(add(rows), setProblem);
  return (
    <>
      {rows.length === 0 ? (
        <p role="status">No row matches.</p>
      ) : (
        <>
          <Table caption="Rows" head={["Graph", "Explainer", "Size", "Class", "Answer", "Edits", ...shown.map((column) => column.title)]}>
            {rows.map((row) => (
              <Row key={`${row.instance} ${row.explainer}`} row={row} columns={shown} className={className} />
            ))}
          </Table>
          <p class="muted small">
            Graph: its position in the test set, or in the held-out part, from 0. Percentages are the GNN's probabilities. Edits: + added, − removed, with the positions of
            both nodes.
          </p>
        </>
      )}
      <ProblemBox problem={problem} />
      {cursor !== null && (
        <p>
          <button type="button" onClick={more}>
            Show more rows
          </button>
        </p>
      )}
    </>
  );
}

const SHOWN_EDITS = 4;

// Columns of metrics, which are left out if no row has them.
const COLUMNS: readonly { title: string; has: (row: EvaluationRow) => boolean; cell: (row: EvaluationRow) => ComponentChildren }[] = [
  { title: "Verdict", has: (row) => row.verdict !== null, cell: ({ verdict }) => verdict !== null && <VerdictPill verdict={verdict} /> },
  { title: "Judges that share it", has: (row) => row.judges_agree.length > 0, cell: sharing },
  { title: "Typicality", has: (row) => row.typicality !== null, cell: (row) => row.typicality?.toFixed(2) },
];

function sharing({ found, judges_agree, judges_share }: EvaluationRow): string {
  if (!found || judges_agree.length === 0) return "";
  return `${judges_share.filter((shares, judge) => shares && judges_agree[judge]).length} of ${judges_agree.filter(Boolean).length}`;
}

function Row({ row, columns, className }: { row: EvaluationRow; columns: typeof COLUMNS; className: ClassName }) {
  const edits = [...row.added.map((pair) => `+\u00a0${pair.join("–")}`), ...row.removed.map((pair) => `−\u00a0${pair.join("–")}`)];
  return (
    <tr>
      <th scope="row">{row.graph}</th>
      <td>{row.explainer}</td>
      <td>
        {row.node_count} nodes, {row.edge_count} edges
      </td>
      <td>
        {className(row.predicted_class)} <span class="muted">{percent(row.probability)}</span>
        {row.label !== null && row.label !== row.predicted_class && <span class="warning-text"> label {className(row.label)}</span>}
      </td>
      <td class="wrap">
        {row.new_class === null ? (
          <span class="muted">{row.reason ?? "none"}</span>
        ) : (
          <>
            {className(row.new_class)} {row.new_probability !== null && <span class="muted">{percent(row.new_probability)}</span>}
          </>
        )}
      </td>
      <td class="wrap">
        {row.edits !== null && (
          <>
            <strong>{row.edits}</strong>{" "}
            <span class="muted small" title={edits.join(", ")}>
              {edits.slice(0, SHOWN_EDITS).map((edit) => (
                <span key={edit} class="edit">
                  {edit}{" "}
                </span>
              ))}
              {edits.length > SHOWN_EDITS && "…"}
            </span>
          </>
        )}
      </td>
      {columns.map((column) => (
        <td key={column.title}>{column.cell(row)}</td>
      ))}
    </tr>
  );
}
