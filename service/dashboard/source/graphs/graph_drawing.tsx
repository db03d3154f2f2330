// Draws a graph as SVG: kept, added and removed edges, node types, and what a person selected.

import { useMemo, useRef, useState } from "preact/hooks";
import { pairKey } from "../format";
import type { Bond, GraphEdge, NodeId, Preview } from "../types";

export type EdgeStyle = "kept" | "added" | "removed";

export interface DrawnEdge {
  source: NodeId;
  target: NodeId;
  style: EdgeStyle;
}

interface Marks {
  preview: Preview;
  edges: readonly DrawnEdge[];
  explained?: NodeId | null;
  frozenNodes?: ReadonlySet<NodeId>;
  frozenEdges?: ReadonlySet<string>;
  marked?: ReadonlySet<NodeId>; // nodes of a pattern
  selected?: NodeId | null;
  onNode?: (node: NodeId) => void;
  onEdge?: (edge: GraphEdge) => void;
}

interface Props extends Marks {
  label: string;
  height?: number;
  bare?: boolean; // without zoom buttons
}

const UNIT = 46; // pixels per unit of the layout
const MARGIN = 40;
const MAX_LABELS = 60; // more labels would cover the graph; tooltips remain

export function GraphDrawing(props: Props) {
  const { preview } = props;
  const box = useMemo(() => boundingBox(preview.positions), [preview]);
  const [view, setView] = useState({ scale: 1, x: 0, y: 0 });
  const drag = useRef<{ x: number; y: number } | null>(null);
  const zoom = (factor: number) =>
    setView((before) => {
      const scale = Math.min(Math.max(before.scale * factor, 0.5), 8);
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]; // stays in the middle
      const change = scale / before.scale;
      return { scale, x: x - change * (x - before.x), y: y - change * (y - before.y) };
    });
  // Zoom and drag change one attribute: the parts of a large graph are not compared again.
  const parts = useMemo(
    () => <Parts {...props} />,
    [preview, props.edges, props.explained, props.frozenNodes, props.frozenEdges, props.marked, props.selected, props.onNode, props.onEdge],
  );
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
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => (drag.current = null)}
      >
        <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>{parts}</g>
      </svg>
      {!props.bare && (
        <div class="zoom">
          <button type="button" onClick={() => zoom(1.3)} aria-label="Zoom in">
            +
          </button>
          <button type="button" onClick={() => zoom(1 / 1.3)} aria-label="Zoom out">
            −
          </button>
          <button type="button" onClick={() => setView({ scale: 1, x: 0, y: 0 })} aria-label="Whole graph">
            ⤢
          </button>
        </div>
      )}
      <Legend preview={preview} />
    </div>
  );
}

function Parts(props: Marks) {
  const { preview } = props;
  const nodes = preview.graph.nodes;
  const points = new Map<NodeId, readonly [number, number]>(nodes.map((node, i) => [node.id, preview.positions[i] ?? [0, 0]]));
  const bonds = new Map((preview.molecule?.bonds ?? []).map((bond) => [pairKey(bond.source, bond.target), bond]));
  const elements = new Map((preview.molecule?.atoms ?? []).map((atom) => [atom.node, atom.element]));
  const touched = new Set(props.edges.filter((edge) => edge.style !== "kept").flatMap((edge) => [edge.source, edge.target]));
  const bonded = new Set(props.edges.flatMap((edge) => [edge.source, edge.target]));
  const radius = nodes.length > 150 ? 5 : nodes.length > 60 ? 8 : 11;
  const at = (node: NodeId): [number, number] => {
    const [x, y] = points.get(node) ?? [0, 0];
    return [x * UNIT, y * UNIT];
  };
  return (
    <>
      {props.edges.map((edge) => {
        const key = pairKey(edge.source, edge.target);
        const [x1, y1] = at(edge.source);
        const [x2, y2] = at(edge.target);
        const isMarked = props.marked?.has(edge.source) && props.marked.has(edge.target);
        const style = `edge ${edge.style} ${props.frozenEdges?.has(key) ? "frozen" : ""} ${isMarked ? "in-pattern" : ""}`;
        return (
          <g key={key} data-hit={props.onEdge && "edge"} onClick={props.onEdge && (() => props.onEdge?.(edge))} class={props.onEdge && "clickable"}>
            <title>{`${edge.style} edge ${edge.source} – ${edge.target}`}</title>
            {lines([x1, y1, x2, y2], bonds.get(key)).map((line) => (
              <line key={line.ends.join()} class={`${style} ${line.aromatic ? "aromatic" : ""}`} x1={line.ends[0]} y1={line.ends[1]} x2={line.ends[2]} y2={line.ends[3]} />
            ))}
            {props.onEdge && <line class="hit" x1={x1} y1={y1} x2={x2} y2={y2} />}
          </g>
        );
      })}
      {nodes.map((node, i) => {
        const [x, y] = at(node.id);
        const type = preview.node_types[i];
        const element = elements.get(node.id);
        // As chemists draw them: a carbon with bonds is the end of its lines.
        const isCarbon = element === "C" && bonded.has(node.id);
        const name = type === undefined ? "" : `: ${preview.types[type]?.name ?? ""}`;
        const styles = [
          "node",
          element === undefined ? `type-${type ?? 0}` : isCarbon ? "carbon" : "atom",
          touched.has(node.id) ? "touched" : "",
          props.frozenNodes?.has(node.id) ? "frozen" : "",
          props.marked !== undefined && !props.marked.has(node.id) ? "faint" : "",
          props.selected === node.id ? "selected" : "",
        ];
        return (
          <g key={JSON.stringify(node.id)} data-hit={props.onNode && "node"} class={props.onNode && "clickable"} onClick={props.onNode && (() => props.onNode?.(node.id))}>
            <title>{`node ${node.id}${element === undefined ? name : ` (${element})`}`}</title>
            <circle class={styles.join(" ")} cx={x} cy={y} r={isCarbon ? 4 : radius} />
            {isCarbon && props.onNode && <circle class="node-hit" cx={x} cy={y} r={radius} />}
            {props.explained === node.id && <circle class="explained" cx={x} cy={y} r={radius + 5} />}
            {(element === undefined ? nodes.length <= MAX_LABELS : !isCarbon) && (
              <text class="label" x={x} y={y + 4} text-anchor="middle">
                {element ?? shortId(node.id)}
              </text>
            )}
          </g>
        );
      })}
    </>
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
  const [left, top] = [Math.min(...xs) - MARGIN, Math.min(...ys) - MARGIN];
  const width = Math.max(...xs) + MARGIN - left;
  const height = Math.max(...ys) + MARGIN - top;
  // A small graph is not magnified beyond its natural size: the box grows around its middle.
  const [addX, addY] = [Math.max(260 - width, 0), Math.max(160 - height, 0)];
  return { x: left - addX / 2, y: top - addY / 2, width: width + addX, height: height + addY };
}

interface Line {
  ends: readonly [number, number, number, number];
  aromatic: boolean; // the dashed line of an aromatic bond
}

// Parallel lines for double and triple bonds; an aromatic bond is a line and a dashed one.
function lines([x1, y1, x2, y2]: [number, number, number, number], bond: Bond | undefined): Line[] {
  const order = bond?.order ?? 1;
  const count = Math.ceil(order);
  if (count <= 1) return [{ ends: [x1, y1, x2, y2], aromatic: false }];
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [(-(y2 - y1) / length) * 5, ((x2 - x1) / length) * 5];
  return Array.from({ length: count }, (_, i) => {
    const shift = i - (count - 1) / 2;
    return {
      ends: [x1 + dx * shift, y1 + dy * shift, x2 + dx * shift, y2 + dy * shift] as const,
      aromatic: order !== count && i === 1,
    };
  });
}

function shortId(node: NodeId): string {
  const text = String(node);
  return text.length <= 4 ? text : `${text.slice(0, 3)}…`;
}
