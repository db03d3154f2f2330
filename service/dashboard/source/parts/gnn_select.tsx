// A list to choose a GNN from.

import { gnnLabel } from "../format";
import type { Gnn } from "../types";

export function GnnSelect(props: { gnns: readonly Gnn[]; value: string; any?: boolean; onChange: (id: string) => void }) {
  return (
    <label>
      GNN
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.any && <option value="">all</option>}
        {props.gnns.map((one) => (
          <option key={one.id} value={one.id}>
            {gnnLabel(one, one.id)}
          </option>
        ))}
      </select>
    </label>
  );
}
