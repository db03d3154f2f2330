// The drawing as a table: every edge with its ends, their types, and what happens to it.

import { useMemo, useState } from "preact/hooks";
import type { NodeId, Preview } from "../types";
import { Table } from "../parts/basics";
import type { DrawnEdge } from "../graphs/graph_drawing";

export function GraphTable({ preview, edges }: { preview: Preview; edges: readonly DrawnEdge[] }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The drawing as a table</summary>
      {open && <Edges preview={preview} edges={edges} />}
    </details>
  );
}

function Edges({ preview, edges }: { preview: Preview; edges: readonly DrawnEdge[] }) {
  const names = useMemo(() => nodeNames(preview), [preview]);
  const changed = edges.filter((edge) => edge.style !== "kept");
  const kept = edges.filter((edge) => edge.style === "kept");
  return (
    <Table caption="Edges of the drawing" head={["From", "To", "Edge"]}>
      {[...changed, ...kept].map((edge) => (
        <tr key={`${JSON.stringify(edge.source)} ${JSON.stringify(edge.target)}`}>
          <td>{names(edge.source)}</td>
          <td>{names(edge.target)}</td>
          <td class={edge.style === "kept" ? undefined : `${edge.style}-text`}>{edge.style}</td>
        </tr>
      ))}
    </Table>
  );
}

// A node's id, with its element or the name of its type.
function nodeNames(preview: Preview): (node: NodeId) => string {
  const elements = new Map((preview.molecule?.atoms ?? []).map((atom) => [atom.node, atom.element]));
  const types = new Map(preview.graph.nodes.map((node, i) => [node.id, preview.types[preview.node_types[i] ?? -1]?.name]));
  return (node) => {
    const kind = elements.get(node) ?? types.get(node);
    return kind === undefined ? String(node) : `${node} (${kind})`;
  };
}
