// What each figure means, in the words of docs/evaluations.md and docs/glossary.md.

import { percent } from "../format";
import type { FigureName } from "./documents";

export interface FigureText {
  name: FigureName;
  title: string;
  means: string;
  unit: "share" | "number" | "seconds";
  before?: FigureName; // the same of the originals
}

export interface FigureGroup {
  title: string;
  figures: FigureText[];
}

export const FIGURE_GROUPS: readonly FigureGroup[] = [
  {
    title: "How easily the GNN changes its mind",
    figures: [
      { name: "validity", title: "Validity", unit: "share", means: "Share of instances with a counterfactual that the sparse GNN verified." },
      { name: "one_edit_share", title: "One-edit share", unit: "share", means: "Share of instances that one edit flips." },
      { name: "edits", title: "Edits", unit: "number", means: "How many edits it takes: mean number over the answers." },
      { name: "modification_ratio", title: "Modification ratio", unit: "share", means: "Edits over edges of the original, mean over the answers." },
      { name: "cf_acc_auc", title: "CF-ACC AUC", unit: "number", means: "Area under the strict CF-ACC curve up to ratio 0.3; larger if more instances flip by fewer edits." },
      { name: "of_ceiling", title: "CF-ACC AUC over its ceiling", unit: "share", means: "That area over the area if one edit always sufficed." },
      { name: "cf_acc_auc_one_edit", title: "CF-ACC AUC, one edit allowed", unit: "number", means: "The area if one edit is always allowed, as the paper's figures must have it." },
      { name: "fidelity", title: "Fidelity", unit: "number", means: "Fall of the probability of the class predicted before, mean over the answers." },
      { name: "fidelity_auc", title: "Fidelity AUC", unit: "number", means: "Area under the mean fidelity of answers within a ratio; no answer counts as 0." },
      { name: "robustness", before: "robustness_before", title: "Robustness", unit: "share", means: "Share of 20 noisy copies of the answer, 5 % of the edges toggled, that keep the new class; before: of the original and its class." },
    ],
  },
  {
    title: "Whether to believe the answers",
    figures: [
      { name: "brittle_share", title: "Brittle share", unit: "share", means: "Brittle answers over judged answers: flips that most other networks do not share." },
      { name: "na", title: "Transfer", unit: "share", means: "Of the flips, the share that a judge shares: mean over judges, where they agree on the original." },
      { name: "nafr", title: "Transfer of all instances", unit: "share", means: "Of all instances, the share with a flip that a judge shares." },
      { name: "typicality", before: "typicality_before", title: "Typicality", unit: "number", means: "Share of held-out reference graphs that are, for their size, no likelier than the answer; mean over the answers; before: of the originals." },
      { name: "low_typicality", before: "low_typicality_before", title: "Unusual answers", unit: "share", means: "Share of answers with a typicality below 0.05; before: of the originals." },
      { name: "stability", title: "Stability", unit: "number", means: "Jaccard similarity of the edits with those of other seeds: 1 if every seed finds the same edits." },
      { name: "connected", title: "Connected", unit: "share", means: "Share of connected edited graphs." },
      { name: "answers", title: "Alternatives", unit: "number", means: "Mean number of answers per instance." },
      { name: "diversity", title: "Diversity", unit: "number", means: "Mean Jaccard distance of alternatives: 0 if they are equal, 1 if they share no edit." },
    ],
  },
  {
    title: "Work per instance",
    figures: [
      { name: "seconds", title: "Run time", unit: "seconds", means: "Seconds per instance; another run changes it." },
      { name: "cpu_seconds", title: "CPU time", unit: "seconds", means: "Seconds of CPU per instance; another run changes it." },
      { name: "gnn_evaluations", title: "GNN evaluations", unit: "number", means: "Graphs in forward passes of the GNN per instance." },
      { name: "gnn_gradients", title: "GNN gradients", unit: "number", means: "Graphs in backward passes of the GNN per instance." },
    ],
  },
];

// The figures of comparisons. They are means over the same instances.
export const COMPARED: Readonly<Record<string, Pick<FigureText, "title" | "means" | "unit">>> = {
  ...Object.fromEntries(FIGURE_GROUPS.flatMap((group) => group.figures).map((text) => [text.name, text])),
  accuracy: { title: "Accuracy", unit: "share", means: "Share of instances whose class by the GNN is the test set's label." },
  typicality: { title: "Typicality", unit: "number", means: "Share of held-out reference graphs that are, for their size, no likelier than the answer; mean over the answers." },
  robustness: { title: "Robustness", unit: "share", means: "Share of 20 noisy copies of the original, 5 % of the edges toggled, that keep its class." },
};

export const METRICS: readonly { name: string; title: string; cost: string }[] = [
  { name: "transfer", title: "transfer", cost: "verdicts by other networks; trains witnesses" },
  { name: "typicality", title: "typicality", cost: "trains a denoiser" },
  { name: "mmd", title: "MMD", cost: "distance to the reference set, with its null" },
  { name: "robustness", title: "robustness", cost: "noisy copies; costs more" },
  { name: "stability", title: "stability", cost: "other seeds; multiplies the work" },
  { name: "c2st", title: "C2ST", cost: "a classifier that tells answers from originals; costs more" },
];

// A difference; that of shares is in percentage points.
export function signedValue(value: number, unit: FigureText["unit"]): string {
  const size = unit === "share" ? `${(100 * Math.abs(value)).toFixed(1)} points` : figureValue(Math.abs(value), unit);
  return `${value < 0 ? "−" : "+"}${size}`;
}

export function figureValue(value: number, unit: FigureText["unit"]): string {
  if (unit === "share") return percent(value);
  if (unit === "seconds") return `${value.toPrecision(2)} s`;
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}
