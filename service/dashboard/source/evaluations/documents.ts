// Evaluations and comparisons, as far as the pages read them. docs/glossary.md describes every field.

import type { Job, JobState, Mmd, Verdict } from "../types";

export interface Interval {
  value: number;
  low: number;
  high: number;
}

export interface Figure extends Interval {
  count: number;
}

export interface CurvePoint {
  ratio: number;
  strict: number;
  one_edit: number;
  ceiling: number;
  fidelity: number;
}

export interface RecurringEdit {
  edits: { action: "add" | "remove"; types: [string, string] }[];
  shared_type: string | null;
  instances: number;
  share: number;
  base_share: number | null;
}

// Figures of one number each; null if it was not measured.
export type FigureName =
  | "validity"
  | "one_edit_share"
  | "cf_acc_auc"
  | "of_ceiling"
  | "cf_acc_auc_one_edit"
  | "fidelity_auc"
  | "fidelity"
  | "edits"
  | "modification_ratio"
  | "connected"
  | "answers"
  | "diversity"
  | "brittle_share"
  | "na"
  | "nafr"
  | "typicality_before"
  | "typicality"
  | "low_typicality_before"
  | "low_typicality"
  | "robustness_before"
  | "robustness"
  | "stability"
  | "gnn_evaluations"
  | "gnn_gradients"
  | "cpu_seconds"
  | "seconds";

export interface ExplainerResult extends Record<FigureName, Figure | Interval | null> {
  explainer: string;
  ceiling: number;
  validity: Figure;
  verdicts: Partial<Record<Verdict, number>>;
  mmd: Mmd | null;
  mmd_before: Mmd | null;
  c2st: { auc: number; low: number; high: number; pairs: number } | null;
  curve: CurvePoint[];
  edit_histogram: Record<string, number>;
  flips: { old_class: number; new_class: number; count: number }[];
  classes: { predicted_class: number; class_name: string | null; validity: Figure }[];
  recurring_edits: RecurringEdit[];
}

export interface EvaluationResult {
  instances: number;
  test: { dataset: string; part: "whole" | "held_out"; graph_count: number; held_out_share: number | null };
  metrics: string[];
  predicted_classes: Record<string, number>;
  class_names: Record<string, string>;
  accuracy: Figure | null;
  explainers: ExplainerResult[];
  judges: { name: string }[];
  unjudged_reason: string | null;
  rows_sha256: string;
  receipt: Record<string, unknown>;
  warnings: string[];
}

export interface EvaluationSummary {
  id: string;
  gnn: string;
  dataset: string;
  test_dataset: string;
  denoiser: string | null;
  explainers: string[];
  instance_count: number;
  explained_count: number;
  state: JobState;
  summary: {
    instances: number;
    accuracy: number | null;
    explainers: Record<string, { validity: number; edits: number | null; brittle_share: number | null }>;
  } | null;
  job: Job;
  created_at: string;
  links: { self: string; rows: string; csv: string; parquet: string | null };
}

export interface Evaluation extends EvaluationSummary {
  result: EvaluationResult | null;
}

export interface EvaluationRow {
  instance: number;
  graph: number;
  explainer: string;
  node_count: number;
  edge_count: number;
  label: number | null;
  predicted_class: number;
  probability: number;
  found: boolean;
  reason: string | null;
  new_class: number | null;
  new_probability: number | null;
  added: [number, number][];
  removed: [number, number][];
  edits: number | null;
  modification_ratio: number | null;
  fidelity: number | null;
  verdict: Verdict | null;
  judges_agree: boolean[];
  judges_share: boolean[];
  typicality: number | null;
}

export interface EvaluationEstimate {
  instances: number;
  shards: number;
  explainers: { explainer: string; seconds: number }[];
  metric_seconds: Record<string, number>;
  seconds: number;
  trains_denoiser: boolean;
  trains_witnesses: boolean;
  denoiser_seconds: number;
  witness_seconds: number;
  total_seconds: number;
}

export interface Moved {
  figure: string;
  baseline: number;
  candidate: number;
  difference: number;
  expected: number;
  low: number;
  high: number;
  effect: number | null;
  deviation: number | null;
  p_value: number;
  corrected_p_value: number;
  moved: boolean;
  worse: boolean | null;
  instances: number;
}

export interface Comparison {
  id: string;
  baseline: string;
  candidate: string;
  baseline_explainer: string | null;
  candidate_explainer: string | null;
  state: JobState;
  moved: string[] | null;
  worse: string[] | null;
  result?: {
    noise: "retraining" | "instances";
    retrained: string[];
    trainings: number;
    alpha: number;
    instances: number;
    agreement: number | null;
    figures: Moved[];
    moved: string[];
    worse: string[];
    warnings: string[];
  } | null;
  job: Job;
  created_at: string;
}
