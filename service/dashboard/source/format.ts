// Numbers, times and names as people read them.

import type { Explanation, Gnn, NodeId, Prediction } from "./types";

export function timeAgo(timestamp: string): string {
  const seconds = Math.max(0, (Date.now() - Date.parse(timestamp)) / 1000);
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} d ago`;
}

export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// Nothing below certainty is called 100 %, and nothing above impossibility 0 %.
export function percent(share: number): string {
  if (share >= 0.995 && share < 1) return "> 99 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function classLabel(number: number, names: readonly string[] | null | undefined): string {
  return names?.[number] ?? `class ${number}`;
}

const KINDS: Record<Explanation["kind"], string> = { counterfactual: "Counterfactual", class: "Class", global: "Global" };

export function kindLabel(kind: Explanation["kind"]): string {
  return KINDS[kind];
}

export function predictedLabel(prediction: Prediction): string {
  return prediction.class_name ?? `class ${prediction.predicted_class}`;
}

export function probability(prediction: Prediction): number {
  return prediction.probabilities[prediction.predicted_class] ?? 0;
}

export function gnnLabel(gnn: Gnn | undefined, id: string): string {
  return gnn === undefined ? id : `${gnn.name}@${gnn.version}`;
}

// One text per undirected pair. JSON keeps 1 and "1" apart.
export function pairKey(one: NodeId, other: NodeId): string {
  return [JSON.stringify(one), JSON.stringify(other)].sort().join("-");
}
