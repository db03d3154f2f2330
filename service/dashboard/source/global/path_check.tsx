// One covered reference graph with the edits that lead to the counterfactual drawn in it.

import { useMemo } from "preact/hooks";
import { plural } from "../format";
import { useDocument } from "../loading";
import { ProblemBox } from "../parts/basics";
import { GraphDrawing, type DrawnEdge } from "../graphs/graph_drawing";
import { usePreview } from "../graphs/previews";
import type { CoveredGraph, EditPath, GlobalResult, Graph, NodeId } from "../types";

interface Props {
  covered: CoveredGraph;
  path: EditPath;
  result: GlobalResult;
  gnn: string;
  dataset: string;
}

export function PathCheck({ covered, path, result, gnn, dataset }: Props) {
  const found = useDocument<{ graphs: { graph: Graph | null; smiles: string | null }[] }>(`/v1/datasets/${dataset}/graphs?offset=${covered.graph}&limit=1`);
  const original = found.document?.graphs[0];
  const before = usePreview(gnn, useMemo(() => (original === undefined ? null : (original.graph ?? { smiles: original.smiles })), [original]));
  const drawn = useMemo(() => before.preview && edited(before.preview.graph, path, result), [before.preview, path, result]);
  const { preview, problem } = usePreview(gnn, drawn?.graph ?? null);
  if (found.problem ?? before.problem ?? problem) return <ProblemBox problem={found.problem ?? before.problem ?? problem} />;
  if (preview === undefined || drawn === undefined) return <p class="muted">Drawing …</p>;
  return (
    <figure>
      <GraphDrawing preview={preview} edges={drawn.edges} label={`Reference graph ${covered.graph} with its ${plural(covered.cost, "edit")}`} height={300} bare />
      <figcaption class="muted small">
        Reference graph {covered.graph}, with added and removed edges in colour. Added nodes are drawn with it, nodes have their type before the edits.
      </figcaption>
    </figure>
  );
}

// The graph before the edits, with the added nodes, and all edges with their styles. Nodes are numbered by position, as in paths.
function edited(original: Graph, path: EditPath, result: GlobalResult): { graph: Graph; edges: DrawnEdge[] } {
  const position = new Map<NodeId, number>(original.nodes.map((node, place) => [node.id, place]));
  const features = new Map(result.node_types.map((one) => [one.type, one.x]));
  const removed = new Set(path.removed_edges.map((ends) => key(...ends)));
  const pairs = original.edges.map((edge): [number, number] => [position.get(edge.source) ?? 0, position.get(edge.target) ?? 0]);
  const edges: DrawnEdge[] = [
    ...pairs.map(([source, target]): DrawnEdge => ({ source, target, style: removed.has(key(source, target)) ? "removed" : "kept" })),
    ...path.added_edges.map(([source, target]): DrawnEdge => ({ source, target, style: "added" })),
  ];
  const attributes = original.edges[0]?.edge_attr;
  return {
    graph: {
      nodes: [
        ...original.nodes.map((node, place) => ({ id: place, x: node.x })),
        ...path.added_nodes.map((one) => ({ id: one.node, x: features.get(one.type) ?? [] })),
      ],
      // For the positions, added edges count as well; their attributes are not shown.
      edges: edges.map((edge) => ({ source: edge.source, target: edge.target, ...(attributes === undefined ? {} : { edge_attr: attributes }) })),
    },
    edges,
  };
}

function key(one: number, other: number): string {
  return `${Math.min(one, other)}-${Math.max(one, other)}`;
}
