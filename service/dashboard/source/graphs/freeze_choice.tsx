// Nodes and edges that an explanation must not touch: by clicks in a drawing, or from lists.

import { useState } from "preact/hooks";
import { pairKey } from "../format";
import type { Graph, NodeId } from "../types";

type Pair = [NodeId, NodeId];

export interface Frozen {
  nodes: ReadonlySet<NodeId>;
  edges: ReadonlyMap<string, Pair>;
}

export const NOTHING_FROZEN: Frozen = { nodes: new Set(), edges: new Map() };

export function frozenOf(nodes: readonly NodeId[], edges: readonly Pair[]): Frozen {
  return { nodes: new Set(nodes), edges: new Map(edges.map((pair) => [pairKey(...pair), pair])) };
}

export function withNode(frozen: Frozen, node: NodeId): Frozen {
  const nodes = new Set(frozen.nodes);
  if (!nodes.delete(node)) nodes.add(node);
  return { ...frozen, nodes };
}

export function withEdge(frozen: Frozen, source: NodeId, target: NodeId): Frozen {
  const edges = new Map(frozen.edges);
  const key = pairKey(source, target);
  if (!edges.delete(key)) edges.set(key, [source, target]);
  return { ...frozen, edges };
}

// As `constraints` of a request.
export function constraintsOf(frozen: Frozen): { frozen_nodes: NodeId[]; frozen_edges: Pair[] } {
  return { frozen_nodes: [...frozen.nodes], frozen_edges: [...frozen.edges.values()] };
}

export function FreezeChoice(props: { graph: Graph; frozen: Frozen; onFrozen: (frozen: Frozen) => void }) {
  const { graph, frozen, onFrozen } = props;
  const [node, setNode] = useState(0);
  const [edge, setEdge] = useState(0);
  const [chosenNode, chosenEdge] = [graph.nodes[node], graph.edges[edge]];
  return (
    <>
      <div class="row">
        <label>
          Node
          <select value={node} onChange={(event) => setNode(Number(event.currentTarget.value))}>
            {graph.nodes.map((one, number) => (
              <option key={number} value={number}>
                {String(one.id)}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => chosenNode && onFrozen(withNode(frozen, chosenNode.id))}>
          {chosenNode && frozen.nodes.has(chosenNode.id) ? "Release node" : "Freeze node"}
        </button>
        {chosenEdge !== undefined && (
          <>
            <label>
              Edge
              <select value={edge} onChange={(event) => setEdge(Number(event.currentTarget.value))}>
                {graph.edges.map((one, number) => (
                  <option key={number} value={number}>
                    {one.source} – {one.target}
                  </option>
                ))}
              </select>
            </label>
            <button type="button" onClick={() => onFrozen(withEdge(frozen, chosenEdge.source, chosenEdge.target))}>
              {frozen.edges.has(pairKey(chosenEdge.source, chosenEdge.target)) ? "Release edge" : "Freeze edge"}
            </button>
          </>
        )}
      </div>
      <p role="status">{described(frozen)}</p>
    </>
  );
}

function described({ nodes, edges }: Frozen): string {
  const texts = [...[...nodes].map((node) => `node ${node}`), ...[...edges.values()].map(([source, target]) => `edge ${source}–${target}`)];
  return texts.length === 0 ? "Nothing is frozen." : `Frozen: ${texts.join(", ")}.`;
}
