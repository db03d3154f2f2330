// Draws a GNN's spec as a graph of layers from top to bottom: boxes in rows, lines from inputs.

import type { Gnn, Layer } from "../types";

const WIDTH = 220;
const HEIGHT = 34;
const GAP = 14;

interface Box {
  name: string;
  title: string;
  detail: string;
  inputs: string[];
}

export function LayerGraph({ spec }: { spec: Gnn["spec"] }) {
  if (spec.layers === undefined) return <p class="muted">This GNN is behind a URL; its layers are unknown.</p>;
  const boxes = boxesOf(spec.layers, spec.features);
  const placed = places(boxes);
  const rows = Math.max(...[...placed.values()].map((place) => place.row)) + 1;
  const columns = Math.max(...[...placed.values()].map((place) => place.column)) + 1;
  const x = (name: string) => (placed.get(name)?.column ?? 0) * (WIDTH + GAP);
  const y = (name: string) => (placed.get(name)?.row ?? 0) * (HEIGHT + GAP);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Graph of layers">
      <svg
        class="layers"
        width={columns * (WIDTH + GAP)}
        height={rows * (HEIGHT + GAP)}
        role="img"
        aria-label={boxes.map((box) => `${box.title} ${box.detail}`).join("; ")}
      >
        {boxes.flatMap((box) =>
          box.inputs.map((input) => (
            <line
              key={`${input}-${box.name}`}
              class="edge"
              x1={x(input) + WIDTH / 2}
              y1={y(input) + HEIGHT}
              x2={x(box.name) + WIDTH / 2}
              y2={y(box.name)}
            />
          )),
        )}
        {boxes.map((box) => (
          <g key={box.name} transform={`translate(${x(box.name)} ${y(box.name)})`}>
            <title>{`${box.title} ${box.detail}`}</title>
            <rect class="box" width={WIDTH} height={HEIGHT} rx="6" />
            <text x="10" y="21">
              {box.title}
              <tspan class="detail" dx="8">
                {box.detail.length > 24 ? `${box.detail.slice(0, 23)}…` : box.detail}
              </tspan>
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

// A layer reads the layer before it unless `inputs` names others.
function boxesOf(layers: readonly Layer[], features: number): Box[] {
  const boxes: Box[] = [{ name: "x", title: "input", detail: `${features} per node`, inputs: [] }];
  if (layers.some((layer) => Array.isArray(layer.inputs) && layer.inputs.includes("edge_attr"))) {
    boxes.push({ name: "edge_attr", title: "edge attributes", detail: "", inputs: [] });
  }
  let before = "x";
  layers.forEach((layer, number) => {
    const name = typeof layer.name === "string" ? layer.name : `#${number}`;
    const named = Array.isArray(layer.inputs) ? layer.inputs.map(String) : [before];
    boxes.push({ name, title: layer.type, detail: fields(layer), inputs: named });
    before = name;
  });
  return boxes;
}

// A box stands one row below its lowest input; boxes of one row stand side by side.
function places(boxes: readonly Box[]): Map<string, { row: number; column: number }> {
  const placed = new Map<string, { row: number; column: number }>();
  const used = new Map<number, number>();
  for (const box of boxes) {
    const row = box.inputs.length === 0 ? 0 : 1 + Math.max(...box.inputs.map((input) => placed.get(input)?.row ?? 0));
    const column = used.get(row) ?? 0;
    used.set(row, column + 1);
    placed.set(box.name, { row, column });
  }
  return placed;
}

function fields(layer: Layer): string {
  return Object.entries(layer)
    .filter(([name, value]) => !["type", "name", "inputs"].includes(name) && value !== null && value !== undefined)
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
