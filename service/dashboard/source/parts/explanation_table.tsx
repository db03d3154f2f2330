// A list of explanations with their GNN, state and verdicts.

import { gnnLabel, kindLabel, percent, timeAgo } from "../format";
import type { Dataset, Explanation, Gnn, Verdict } from "../types";
import { PageLink, State, Table, VerdictPill } from "./basics";

export function ExplanationTable(props: {
  explanations: readonly Explanation[];
  gnns: readonly Gnn[];
  datasets: readonly Dataset[];
}) {
  if (props.explanations.length === 0) {
    return (
      <p class="muted">
        No explanations yet. <PageLink to="/ask">Ask a question</PageLink> about a graph.
      </p>
    );
  }
  const byId = new Map(props.gnns.map((gnn) => [gnn.id, gnn]));
  const sets = new Map(props.datasets.map((dataset) => [dataset.id, `${dataset.name}@${dataset.version}`]));
  return (
    <Table caption="Explanations" head={["Explanation", "State", "Verdicts", "GNN", "Data set", "Flip rate", "Created"]}>
      {props.explanations.map((one) => (
        <tr key={one.id}>
          <th scope="row">
            <PageLink to={`/explanations/${one.id}`}>
              <span title={one.id}>
                {kindLabel(one.kind)} …{one.id.slice(-6)}
              </span>
            </PageLink>
          </th>
          <td>
            <State state={one.state} />
            {one.state === "running" && one.result_stage === "provisional" && <span class="muted small"> provisional answer</span>}
          </td>
          <td>
            <Verdicts counts={one.summary?.verdicts} />
          </td>
          <td>
            <PageLink to={`/gnns/${one.gnn}`}>{gnnLabel(byId.get(one.gnn), one.gnn)}</PageLink>
          </td>
          <td>{sets.get(one.dataset) ?? one.dataset}</td>
          <td>{typeof one.summary?.flip_rate === "number" ? percent(one.summary.flip_rate) : ""}</td>
          <td>{timeAgo(one.created_at)}</td>
        </tr>
      ))}
    </Table>
  );
}

function Verdicts({ counts }: { counts: Partial<Record<Verdict, number>> | undefined }) {
  const present = Object.entries(counts ?? {}).filter(([, count]) => count > 0) as [Verdict, number][];
  return (
    <>
      {present.map(([verdict, count]) => (
        <span key={verdict}>
          {present.length > 1 || count > 1 ? `${count} ` : ""}
          <VerdictPill verdict={verdict} />{" "}
        </span>
      ))}
    </>
  );
}
