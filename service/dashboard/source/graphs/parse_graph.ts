// Text that a person pasted or dropped: JSON of any graph format, GraphML, a list of edges, or SMILES.

import type { GraphEdge, GraphNode, NodeId } from "../types";

type PostedNode = Omit<GraphNode, "x"> & { x?: number[] };
interface PostedGraph {
  nodes: PostedNode[];
  edges: GraphEdge[];
}

// Throws an error whose message says what is wrong.
export function parseGraph(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed.startsWith("<")) return fromGraphml(trimmed);
  if (trimmed.startsWith("{") || trimmed.startsWith("[")) return fromJson(trimmed);
  return isEdgeList(trimmed) ? fromEdgeList(trimmed) : { smiles: trimmed };
}

function fromJson(text: string): unknown {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is no valid JSON: ${(error as Error).message}`);
  }
  // Files of examples hold several graphs.
  if (Array.isArray(document)) return document[0];
  if (typeof document !== "object" || document === null) return document;
  if ("graphs" in document && Array.isArray(document.graphs)) return document.graphs[0];
  if ("elements" in document) return fromCytoscape(document.elements as Elements);
  return document;
}

interface Elements {
  nodes: { data: { id: string; value?: NodeId; x?: number[] } }[];
  edges: { data: { source: NodeId; target: NodeId; edit?: string; edge_attr?: number[] } }[];
}

// Cytoscape's ids are texts; `value` has the id that the graph was posted with.
function fromCytoscape(elements: Elements): PostedGraph {
  const value = new Map(elements.nodes.map(({ data }) => [String(data.id), data.value ?? data.id]));
  const named = (id: NodeId) => value.get(String(id)) ?? id;
  return {
    nodes: elements.nodes.map(({ data }) => ({ id: named(data.id), ...(data.x ? { x: data.x } : {}) })),
    edges: elements.edges
      .filter(({ data }) => data.edit !== "removed")
      .map(({ data }) => ({
        source: named(data.source),
        target: named(data.target),
        ...(data.edge_attr ? { edge_attr: data.edge_attr } : {}),
      })),
  };
}

// Features are the attributes x0, x1 …, those of edges e0, e1 …, as this service writes them.
function fromGraphml(text: string): PostedGraph {
  const document = new DOMParser().parseFromString(text, "application/xml");
  const graph = document.querySelector("graph");
  if (document.querySelector("parsererror") !== null || graph === null) throw new Error("This is no valid GraphML.");
  if (graph.getAttribute("edgedefault") === "directed") throw new Error("The GraphML describes a directed graph; only undirected ones can be read.");
  const name = new Map([...document.querySelectorAll("key")].map((key) => [key.id, key.getAttribute("attr.name") ?? ""]));
  const values = (element: Element) => new Map([...element.querySelectorAll("data")].map((data) => [name.get(data.getAttribute("key") ?? "") ?? "", data.textContent ?? ""]));
  const row = (found: ReadonlyMap<string, string>, letter: string): number[] => {
    const numbers: number[] = [];
    for (let text = found.get(`${letter}0`); text !== undefined; text = found.get(`${letter}${numbers.length}`)) numbers.push(Number(text));
    return numbers;
  };
  return {
    nodes: [...graph.querySelectorAll("node")].map((node) => {
      const x = row(values(node), "x");
      return { id: nodeId(node.id), ...(x.length > 0 ? { x } : {}) };
    }),
    edges: [...graph.querySelectorAll("edge")].flatMap((edge) => {
      const found = values(edge);
      const edge_attr = row(found, "e");
      if (found.get("edit") === "removed") return [];
      const ends = { source: nodeId(edge.getAttribute("source") ?? ""), target: nodeId(edge.getAttribute("target") ?? "") };
      return [edge_attr.length > 0 ? { ...ends, edge_attr } : ends];
    }),
  };
}

const EDGE = /^(\S+?)(?:\s*,\s*|\s+)(\S+)$/;

// One edge per line: two names, separated by a space or a comma.
function isEdgeList(text: string): boolean {
  return text.split(/\r?\n/).every((line) => EDGE.test(line.trim()));
}

function fromEdgeList(text: string): PostedGraph {
  const edges = text.split(/\r?\n/).map((line) => {
    const [, source = "", target = ""] = EDGE.exec(line.trim()) ?? [];
    return { source: nodeId(source), target: nodeId(target) };
  });
  const ids = new Set(edges.flatMap((edge) => [edge.source, edge.target]));
  return { nodes: [...ids].map((id) => ({ id })), edges };
}

function nodeId(text: string): NodeId {
  return /^(0|-?[1-9]\d{0,14})$/.test(text) ? Number(text) : text;
}
