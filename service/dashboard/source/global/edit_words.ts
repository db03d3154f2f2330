// Edits of global counterfactuals in words.

import type { EditPath, GlobalResult } from "../types";

export function typeNames(result: GlobalResult): (type: number) => string {
  const names = new Map(result.node_types.map((one) => [one.type, one.name ?? `type ${one.type}`]));
  return (type) => names.get(type) ?? `type ${type}`;
}

export function ruleWords(rule: GlobalResult["rules"][number], name: (type: number) => string): string {
  const [first = "", second = ""] = rule.types.map(name);
  if (rule.kind === "retype") return `node ${first} becomes ${second}`;
  if (rule.kind === "add_edge") return `edge ${first} – ${second} added`;
  if (rule.kind === "remove_edge") return `edge ${first} – ${second} removed`;
  return `node ${first} ${rule.kind === "add_node" ? "added" : "removed"}`;
}

export function pathWords(path: EditPath, name: (type: number) => string): string {
  return [
    ...path.changed_types.map((one) => `node ${one.node}: ${name(one.before)} → ${name(one.after)}`),
    ...path.added_nodes.map((one) => `+ node ${one.node} (${name(one.type)})`),
    ...path.removed_edges.map(([one, other]) => `− edge ${one}–${other}`),
    ...path.added_edges.map(([one, other]) => `+ edge ${one}–${other}`),
    ...path.removed_nodes.map((node) => `− node ${node}`),
  ].join(", ");
}
