// The edits as a table with a button for each, and a form for other pairs.

import { useState } from "preact/hooks";
import { pairKey } from "../format";
import type { Edit, NodeId } from "../types";
import { Table } from "../parts/basics";
import type { Toggles } from "../graphs/undirected_edges";

interface Props {
  nodes: NodeId[];
  edits: readonly Edit[];
  toggles: Toggles;
  onToggle: (source: NodeId, target: NodeId) => void;
}

export function EditTable(props: Props) {
  const own = new Set(props.edits.map((edit) => pairKey(edit.source, edit.target)));
  const extra = [...props.toggles].filter(([key]) => !own.has(key));
  return (
    <>
      <Table caption="Edits" head={["Edit", "Between", "Applied"]}>
        {props.edits.map((edit) => {
          const applied = props.toggles.has(pairKey(edit.source, edit.target));
          return (
            <tr key={pairKey(edit.source, edit.target)}>
              <td class={edit.action === "add" ? "added-text" : "removed-text"}>{edit.action}</td>
              <td>
                {edit.source} – {edit.target}
                {(edit.source_type ?? edit.target_type) !== undefined && (
                  <span class="muted">
                    {" "}
                    {edit.source_type ?? "?"}–{edit.target_type ?? "?"}
                  </span>
                )}
              </td>
              <td>
                <button type="button" aria-pressed={!applied} onClick={() => props.onToggle(edit.source, edit.target)}>
                  {applied ? "Undo" : "Apply"}
                </button>
              </td>
            </tr>
          );
        })}
        {extra.map(([key, pair]) => (
          <tr key={key}>
            <td>yours</td>
            <td>
              {pair.source} – {pair.target}
            </td>
            <td>
              <button type="button" onClick={() => props.onToggle(pair.source, pair.target)}>
                Undo
              </button>
            </td>
          </tr>
        ))}
      </Table>
      <PairForm nodes={props.nodes} onToggle={props.onToggle} />
    </>
  );
}

function PairForm({ nodes, onToggle }: Pick<Props, "nodes" | "onToggle">) {
  const [ends, setEnds] = useState<[number, number]>([0, 1]);
  if (nodes.length < 2) return null;
  const select = (end: 0 | 1, name: string) => (
    <label>
      {name}
      <select
        value={ends[end]}
        onChange={(event) => setEnds(end === 0 ? [Number(event.currentTarget.value), ends[1]] : [ends[0], Number(event.currentTarget.value)])}
      >
        {nodes.map((node, number) => (
          <option key={number} value={number}>
            {String(node)}
          </option>
        ))}
      </select>
    </label>
  );
  const [source, target] = [nodes[ends[0]], nodes[ends[1]]];
  return (
    <div class="row">
      {select(0, "From")}
      {select(1, "To")}
      <button
        type="button"
        disabled={ends[0] === ends[1]}
        onClick={() => {
          if (source !== undefined && target !== undefined) onToggle(source, target);
        }}
      >
        Toggle edge
      </button>
    </div>
  );
}
