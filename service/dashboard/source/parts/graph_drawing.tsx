// Draws a graph as SVG: kept, added and removed edges, node types, and what a person selected.

import { useMemo, useRef, useState } from "preact/hooks";
import { pairKey } from "../format";
import type { GraphEdge, NodeId, Preview } from "../types";

export type EdgeStyle = "kept" | "added" | "removed";

export interface DrawnEdge {
  source: NodeId;
  target: NodeId;
  style: EdgeStyle;
}

interface Props {
  preview: Preview;
  edges: readonly DrawnEdge[];
  label: string;
  explained?: NodeId | null;
  frozenNodes?: ReadonlySet<NodeId>;
  frozenEdges?: ReadonlySet<string>;
  marked?: ReadonlySet<NodeId>; // nodes of a pattern
  selected?: NodeId | null;
  onNode?: (node: NodeId) => void;
  onEdge?: (edge: GraphEdge) => void;
  height?: number;
  bare?: boolean; // without zoom buttons
}

const UNIT = 46; // pixels per unit of the layout
const MARGIN = 40;
const MAX_LABELS = 60; // more labels would cover the graph; tooltips remain

export function GraphDrawing(props: Props) {
  const { preview } = props;
  const points = useMemo(
    () => new Map(preview.graph.nodes.map((node, i) => [node.id, (preview.positions[i] ?? [0, 0]) as [number, number]] as const)),
    [preview],
  );
  const box = useMemo(() => boundingBox(preview.positions), [preview]);
  const [view, setView] = useState({ scale: 1, x: 0, y: 0 });
  const drag = useRef<{ x: number; y: number } | null>(null);
  const orders = useMemo(
    () => new Map((preview.molecule?.bonds ?? []).map((bond) => [pairKey(bond.source, bond.target), bond.order])),
    [preview],
  );
  const elements = useMemo(
    () => new Map((preview.molecule?.atoms ?? []).map((atom) => [atom.node, atom.element])),
    [preview],
  );
  const touched = new Set(
    props.edges.filter((edge) => edge.style !== "kept").flatMap((edge) => [edge.source, edge.target]),
  );
  const radius = preview.graph.nodes.length > 150 ? 5 : preview.graph.nodes.length > 60 ? 8 : 11;

  const at = (node: NodeId): [number, number] => {
    const [x, y] = points.get(node) ?? [0, 0];
    return [x * UNIT, y * UNIT];
  };
  const zoom = (factor: number) =>
    setView((before) => ({ ...before, scale: Math.min(Math.max(before.scale * factor, 0.5), 8) }));

  return (
    <div class="drawing">
      <svg
        viewBox={`${box.x} ${box.y} ${box.width} ${box.height}`}
        style={{ maxHeight: `${props.height ?? 460}px` }}
        role="img"
        aria-label={props.label}
        onWheel={(event) => {
          if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
          event.preventDefault();
          zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
        }}
        onPointerDown={(event) => {
          if ((event.target as Element).closest("[data-hit]") === null) drag.current = { x: event.clientX, y: event.clientY };
        }}
        onPointerMove={(event) => {
          const from = drag.current;
          if (from === null) return;
          const width = (event.currentTarget as SVGSVGElement).clientWidth;
          const pixels = box.width / Math.max(width, 1);
          drag.current = { x: event.clientX, y: event.clientY };
          setView((before) => ({
            ...before,
            x: before.x + (event.clientX - from.x) * pixels,
            y: before.y + (event.clientY - from.y) * pixels,
          }));
        }}
        onPointerUp={() => (drag.current = null)}
        onPointerLeave={() => (drag.current = null)}
      >
        <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
          {props.edges.map((edge) => {
            const key = pairKey(edge.source, edge.target);
            const [x1, y1] = at(edge.source);
            const [x2, y2] = at(edge.target);
            const frozen = props.frozenEdges?.has(key) ? "frozen" : "";
            return (
              <g key={key} data-hit={props.onEdge && "edge"} onClick={() => props.onEdge?.(edge)} class={props.onEdge && "clickable"}>
                <title>{`${edge.style} edge ${edge.source} – ${edge.target}`}</title>
                {lines([x1, y1, x2, y2], orders.get(key) ?? 1).map((line) => (
                  <line key={line.join()} class={`edge ${edge.style} ${frozen}`} x1={line[0]} y1={line[1]} x2={line[2]} y2={line[3]} />
                ))}
                {props.onEdge && <line class="hit" x1={x1} y1={y1} x2={x2} y2={y2} />}
              </g>
            );
          })}
          {preview.graph.nodes.map((node, i) => {
            const [x, y] = at(node.id);
            const type = preview.node_types[i];
            const element = elements.get(node.id);
            const name = type === undefined ? "" : `: ${preview.types[type]?.name ?? ""}`;
            const styles = [
              "node",
              element === undefined ? `type-${type ?? 0}` : "atom",
              touched.has(node.id) ? "touched" : "",
              props.frozenNodes?.has(node.id) ? "frozen" : "",
              props.marked !== undefined && !props.marked.has(node.id) ? "faint" : "",
              props.selected === node.id ? "selected" : "",
            ];
            return (
              <g
                key={JSON.stringify(node.id)}
                data-hit={props.onNode && "node"}
                class={props.onNode && "clickable"}
                onClick={() => props.onNode?.(node.id)}
              >
                <title>{`node ${node.id}${element === undefined ? name : ` (${element})`}`}</title>
                <circle class={styles.join(" ")} cx={x} cy={y} r={radius} />
                {props.explained === node.id && <circle class="explained" cx={x} cy={y} r={radius + 5} />}
                {(element !== undefined || preview.graph.nodes.length <= MAX_LABELS) && (
                  <text class="label" x={x} y={y + 4} text-anchor="middle">
                    {element ?? shortId(node.id)}
                  </text>
                )}
              </g>
            );
          })}
        </g>
      </svg>
      {!props.bare && <div class="zoom">
        <button type="button" onClick={() => zoom(1.3)} aria-label="Zoom in">
          +
        </button>
        <button type="button" onClick={() => zoom(1 / 1.3)} aria-label="Zoom out">
          −
        </button>
        <button type="button" onClick={() => setView({ scale: 1, x: 0, y: 0 })} aria-label="Whole graph">
          ⤢
        </button>
      </div>}
      <Legend preview={preview} />
    </div>
  );
}

function Legend({ preview }: { preview: Preview }) {
  if (preview.types.length === 0 || preview.molecule !== null) return null;
  return (
    <ul class="legend" aria-label="Node types">
      {preview.types.map((type, number) => (
        <li key={type.name}>
          <svg viewBox="0 0 14 14" aria-hidden="true">
            <circle class={`node type-${number}`} cx="7" cy="7" r="6" />
          </svg>
          {type.name} <span class="muted">{type.count}</span>
        </li>
      ))}
    </ul>
  );
}

function boundingBox(positions: readonly [number, number][]) {
  const xs = positions.map(([x]) => x * UNIT);
  const ys = positions.map(([, y]) => y * UNIT);
  const left = Math.min(...xs, 0) - MARGIN;
  const top = Math.min(...ys, 0) - MARGIN;
  const width = Math.max(...xs, 0) + MARGIN - left;
  const height = Math.max(...ys, 0) + MARGIN - top;
  return { x: left, y: top, width: Math.max(width, 200), height: Math.max(height, 160) };
}

// Parallel lines for double and triple bonds; an aromatic bond is drawn as one and a half: two.
function lines([x1, y1, x2, y2]: [number, number, number, number], order: number) {
  const count = Math.round(order + 0.25);
  if (count <= 1) return [[x1, y1, x2, y2] as const];
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [(-(y2 - y1) / length) * 5, ((x2 - x1) / length) * 5];
  return Array.from({ length: count }, (_, i) => {
    const shift = i - (count - 1) / 2;
    return [x1 + dx * shift, y1 + dy * shift, x2 + dx * shift, y2 + dy * shift] as const;
  });
}

function shortId(node: NodeId): string {
  const text = String(node);
  return text.length <= 4 ? text : `${text.slice(0, 3)}…`;
}
