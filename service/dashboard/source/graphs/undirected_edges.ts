// Edge sets of an original graph and of edits to it.

import { pairKey } from "../format";
import type { Edit, Graph, NodeId } from "../types";
import type { DrawnEdge } from "./graph_drawing";

export type Toggles = ReadonlyMap<string, { source: NodeId; target: NodeId }>;

export function togglesOf(edits: readonly Edit[]): Toggles {
  return new Map(
    edits.map((edit) => [pairKey(edit.source, edit.target), { source: edit.source, target: edit.target }]),
  );
}

export function toggled(toggles: Toggles, source: NodeId, target: NodeId): Toggles {
  const next = new Map(toggles);
  const key = pairKey(source, target);
  if (!next.delete(key)) next.set(key, { source, target });
  return next;
}

export function edgeKeys(graph: Graph): ReadonlySet<string> {
  return new Set(graph.edges.map((edge) => pairKey(edge.source, edge.target)));
}

export function keptEdges(graph: Graph): DrawnEdge[] {
  return graph.edges.map((edge) => ({ source: edge.source, target: edge.target, style: "kept" }));
}

// The original's edges and the toggled pairs, as they are drawn.
export function drawnEdges(original: Graph, toggles: Toggles): DrawnEdge[] {
  const present = edgeKeys(original);
  const kept: DrawnEdge[] = original.edges.map((edge) => ({
    source: edge.source,
    target: edge.target,
    style: toggles.has(pairKey(edge.source, edge.target)) ? "removed" : "kept",
  }));
  const nodes = new Set(original.nodes.map((node) => node.id));
  const added: DrawnEdge[] = [...toggles]
    .filter(([key, { source, target }]) => !present.has(key) && nodes.has(source) && nodes.has(target))
    .map(([, pair]) => ({ ...pair, style: "added" }));
  return [...kept, ...added];
}

export function sameToggles(one: Toggles, other: Toggles): boolean {
  return one.size === other.size && [...one.keys()].every((key) => other.has(key));
}

// The nodes within two steps of an edit, for graphs that are too large to draw.
export function neighbourhood(graph: Graph, centres: ReadonlySet<NodeId>, most: number): Graph {
  const kept = new Set(centres);
  for (let step = 0; step < 2 && kept.size < most; step += 1) {
    const reached = graph.edges.filter((edge) => kept.has(edge.source) !== kept.has(edge.target));
    for (const edge of reached) {
      if (kept.size < most) kept.add(edge.source).add(edge.target);
    }
  }
  return {
    nodes: graph.nodes.filter((node) => kept.has(node.id)),
    edges: graph.edges.filter((edge) => kept.has(edge.source) && kept.has(edge.target)),
  };
}
