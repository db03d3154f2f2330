// A list of GNNs with their state and classes.

import { timeAgo } from "../format";
import type { Gnn } from "../types";
import { PageLink, State, Table } from "./basics";

export function GnnTable({ gnns }: { gnns: Gnn[] }) {
  if (gnns.length === 0) return <p class="muted">No GNN is registered yet.</p>;
  return (
    <Table caption="GNNs" head={["GNN", "State", "Classifies", "Classes", "Aliases", "Registered"]}>
      {gnns.map((gnn) => (
        <tr key={gnn.id}>
          <th scope="row">
            <PageLink to={`/gnns/${gnn.id}`}>
              {gnn.name}@{gnn.version}
            </PageLink>
          </th>
          <td>
            <State state={gnn.state} />
          </td>
          <td>{gnn.spec.task}s</td>
          <td>{gnn.spec.class_names?.join(", ") ?? `${gnn.spec.classes} classes`}</td>
          <td>{gnn.aliases.join(", ")}</td>
          <td>{timeAgo(gnn.created_at)}</td>
        </tr>
      ))}
    </Table>
  );
}
