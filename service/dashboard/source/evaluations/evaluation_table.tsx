// Lists of evaluations and of comparisons.

import { gnnLabel, percent, timeAgo } from "../format";
import { PageLink, State, Table } from "../parts/basics";
import type { Dataset, Gnn } from "../types";
import type { Comparison, EvaluationSummary } from "./documents";

export interface Names {
  gnns: ReadonlyMap<string, Gnn>;
  sets: ReadonlyMap<string, string>;
}

export function namesOf(gnns: readonly Gnn[], datasets: readonly Dataset[]): Names {
  return {
    gnns: new Map(gnns.map((gnn) => [gnn.id, gnn])),
    sets: new Map(datasets.map((one) => [one.id, `${one.name}@${one.version}`])),
  };
}

export function shortId(id: string): string {
  return `…${id.slice(-6)}`;
}

export function EvaluationTable({ evaluations, names }: { evaluations: readonly EvaluationSummary[]; names: Names }) {
  return (
    <Table caption="Evaluations" head={["Evaluation", "State", "GNN", "Test set", "Explainers", "Progress", "Validity", "Created"]}>
      {evaluations.map((one) => (
        <tr key={one.id}>
          <th scope="row">
            <PageLink to={`/evaluations/${one.id}`}>
              <span title={one.id}>Evaluation {shortId(one.id)}</span>
            </PageLink>
          </th>
          <td>
            <State state={one.state} />
          </td>
          <td>
            <PageLink to={`/gnns/${one.gnn}`}>{gnnLabel(names.gnns.get(one.gnn), one.gnn)}</PageLink>
          </td>
          <td>{names.sets.get(one.test_dataset) ?? one.test_dataset}</td>
          <td class="wrap">{one.explainers.join(", ")}</td>
          <td>
            {one.explained_count} of {one.instance_count} <span class="hidden">instances</span>
          </td>
          <td>
            {one.summary !== null &&
              Object.entries(one.summary.explainers).map(([name, figures]) => (
                <div key={name}>
                  {one.explainers.length > 1 && <span class="muted">{name} </span>}
                  {percent(figures.validity)}
                </div>
              ))}
          </td>
          <td>{timeAgo(one.created_at)}</td>
        </tr>
      ))}
    </Table>
  );
}

export function ComparisonTable(props: { comparisons: readonly Comparison[]; evaluations: readonly EvaluationSummary[]; names: Names }) {
  const byId = new Map(props.evaluations.map((one) => [one.id, one]));
  const side = (id: string, explainer: string | null) => {
    const evaluation = byId.get(id);
    return (
      <>
        <PageLink to={`/evaluations/${id}`}>
          <span title={id}>{evaluation === undefined ? shortId(id) : gnnLabel(props.names.gnns.get(evaluation.gnn), evaluation.gnn)}</span>
        </PageLink>
        {explainer !== null && <span class="muted"> {explainer}</span>}
      </>
    );
  };
  return (
    <Table caption="Comparisons" head={["Comparison", "State", "Baseline", "Candidate", "Got worse", "Moved", "Created"]}>
      {props.comparisons.map((one) => (
        <tr key={one.id}>
          <th scope="row">
            <PageLink to={`/comparisons/${one.id}`}>
              <span title={one.id}>Comparison {shortId(one.id)}</span>
            </PageLink>
          </th>
          <td>
            <State state={one.state} />
          </td>
          <td>{side(one.baseline, one.baseline_explainer)}</td>
          <td>{side(one.candidate, one.candidate_explainer)}</td>
          <td class="wrap">{one.worse && (one.worse.join(", ") || "nothing")}</td>
          <td class="wrap">{one.moved && (one.moved.join(", ") || "nothing")}</td>
          <td>{timeAgo(one.created_at)}</td>
        </tr>
      ))}
    </Table>
  );
}
