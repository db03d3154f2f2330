// Draws a GNN's spec as a graph of layers, from top to bottom.

import type { Gnn, Layer } from "../types";

// Layers read the layer before them unless `inputs` names others.
export function LayerGraph({ spec }: { spec: Gnn["spec"] }) {
  if (spec.layers === undefined) return <p class="muted">This GNN is behind a URL; its layers are unknown.</p>;
  return (
    <ol class="layers">
      <li>
        <b>input</b> <span class="muted">{spec.features} features per node</span>
      </li>
      {spec.layers.map((layer, number) => (
        <li key={number}>
          <b>{String(layer.name ?? layer.type)}</b> {layer.name !== undefined && <span class="muted">{layer.type} </span>}
          <span class="muted">{fields(layer)}</span>
        </li>
      ))}
    </ol>
  );
}

function fields(layer: Layer): string {
  return Object.entries(layer)
    .filter(([name, value]) => name !== "type" && name !== "name" && value !== null && value !== undefined)
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
