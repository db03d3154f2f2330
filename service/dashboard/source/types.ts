// The parts of the API's documents that the pages read. docs/glossary.md describes every field.

export type NodeId = number | string;
export type JobState = "queued" | "running" | "succeeded" | "failed" | "canceled" | "expired";
export type Verdict = "meaningful" | "brittle" | "unjudged";

export interface GraphNode {
  id: NodeId;
  x: number[];
}

export interface GraphEdge {
  source: NodeId;
  target: NodeId;
  edge_attr?: number[];
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface Bond {
  source: NodeId;
  target: NodeId;
  order: number;
}

export interface Molecule {
  smiles: string;
  atoms: { node: NodeId; element: string }[];
  bonds: Bond[];
}

export interface Preview {
  graph: Graph;
  positions: [number, number][];
  types: { name: string; count: number }[];
  node_types: number[];
  molecule: Molecule | null;
  warnings: string[];
}

export interface Prediction {
  predicted_class: number;
  class_name: string | null;
  probabilities: number[];
}

export interface Edit {
  action: "add" | "remove";
  source: NodeId;
  target: NodeId;
  source_type?: string;
  target_type?: string;
  plausibility: number | null;
}

export interface Typicality {
  value: number;
  low: boolean;
  calibration_graphs: number;
}

export interface Counterfactual {
  graph: Graph;
  edits: Edit[];
  prediction: Prediction;
  confidence: number;
  fidelity: number;
  modification_ratio: number;
  connected: boolean;
  aim?: "believable" | "minimal";
  verdict?: Verdict;
  transfers?: { shared: number; agreeing: number; asked: number } | null;
  typicality?: Typicality | null;
  unseen?: { kind: string; nodes: NodeId[]; detail: string }[];
  order?: { reason: string } | null;
  molecule?: { smiles: string | null; valid: boolean } | null;
}

export interface CounterfactualAnswer {
  graph: Graph;
  molecule: Molecule | null;
  node: { id: NodeId; complete: boolean } | null;
  prediction: Prediction;
  typicality: Typicality | null;
  found: boolean;
  reason: string | null;
  counterfactuals: Counterfactual[];
  minimal: Counterfactual[];
}

export interface Mmd {
  degree: number;
  clustering: number;
  spectrum: number;
  sum: number;
  null_quantiles: Record<string, number>;
  p_value: number;
  graph_count: number;
}

export interface CounterfactualResult {
  kind: "counterfactual";
  stage: "provisional" | "final";
  final_adds: string[];
  answers: CounterfactualAnswer[];
  summary: Summary;
  mmd: Mmd | null;
  receipt: { config: AskedConfig; [field: string]: unknown };
  unjudged_reason: string | null;
  warnings: string[];
}

// What a receipt says about the question; old receipts lack some fields.
export interface AskedConfig {
  target_class?: number | null;
  aim?: string;
  alternatives?: number;
  explainer?: string;
  preset?: string;
  judges?: string | string[];
  constraints?: Record<string, unknown>;
}

export interface Nearest {
  target_class: number;
  nearest: {
    position: number | null;
    graph: Graph;
    smiles: string | null;
    node: NodeId | null;
    prediction: Prediction;
    label: number | null;
  } | null;
  distance: number | null;
  hops: number;
  compares_features: boolean;
  compared_count: number;
}

export interface Change {
  mean: number;
  standard_error: number;
  graph_count: number;
}

export interface ClassExample {
  graph: Graph;
  support: { in_class: number; elsewhere: number | null; class_count: number; other_count: number };
  contrast: number | null;
  effect: { mean: number; inserted: Change | null; broken: Change | null };
  confidence: number | null;
  confidence_alone: number;
  found_by: ("denoiser" | "data" | "generator")[];
  chain: { step: number; graph: Graph }[];
  occurrences: { graph: number; nodes: number[]; shown: Graph | null }[];
  node: NodeId | null;
}

export interface ClassResult {
  kind: "class";
  target_class: number;
  examples: ClassExample[];
  reason: string | null;
  tells_small_graphs_apart: boolean;
  mmd: Mmd | null;
  receipt: { config: { steps?: number }; [field: string]: unknown };
  warnings: string[];
}

export interface EditPath {
  added_nodes: { node: number; type: number }[];
  removed_nodes: number[];
  changed_types: { node: number; before: number; after: number }[];
  added_edges: [number, number][];
  removed_edges: [number, number][];
}

export interface CoveredGraph {
  graph: number;
  cost: number;
  distance: number;
  nearest: boolean;
  path: EditPath | null;
}

export interface GlobalCounterfactual {
  graph: Graph;
  prediction: Prediction;
  covered_share: number;
  added_share: number;
  covered: CoveredGraph[];
}

export interface GlobalResult {
  kind: "global";
  source_class: number;
  theta: number;
  source_count: number;
  too_large_count: number;
  covered_count: number;
  coverage: number | null;
  mean_cost: number | null;
  counterfactuals: GlobalCounterfactual[];
  curves: { theta: number; coverage: number[]; mean_cost: (number | null)[] }[];
  rules: { kind: "retype" | "add_edge" | "remove_edge" | "add_node" | "remove_node"; types: number[]; path_count: number; share: number }[];
  node_types: { type: number; name?: string; x: number[] }[];
  reason: string | null;
  warnings: string[];
}

export interface Summary {
  graph_count: number;
  found_count: number;
  flip_rate: number | null;
  mean_edits: number | null;
  mean_confidence: number | null;
  verdicts: Partial<Record<Verdict, number>>;
  transfer_ratio: number | null;
}

export interface Progress {
  phase?: string;
  step?: number;
  total?: number;
  metrics?: Record<string, number>;
  at?: string; // of an event; the progress of an awaited training has none
}

export interface Job {
  id: string;
  kind: string;
  queue: string;
  state: JobState;
  attempt: number;
  max_attempts: number;
  progress: Progress | null;
  waiting_for: string | null;
  trainings: {
    job: string;
    kind: string;
    state: JobState;
    progress: Progress | null;
    seconds_left: number | null;
  }[];
  seconds_left: number | null;
  error: { type: string; message: string } | null;
  subject: Record<"gnn" | "dataset" | "denoiser" | "witness_set" | "explanation" | "evaluation" | "comparison", string | null>;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  links: { self: string; events: string; cancel: string | null; retry: string | null };
}

export interface Explanation {
  id: string;
  kind: "counterfactual" | "class" | "global";
  gnn: string;
  dataset: string;
  denoiser: string | null;
  state: JobState;
  answers: { stage: "provisional" | "final"; state: JobState; url: string; svg: string | null }[];
  result_stage: "provisional" | "final" | null;
  reason: string | null;
  summary: (Partial<Summary> & Record<string, unknown>) | null;
  job: Job;
  created_at: string;
  links: { self: string; job: string; events: string; svg: string | null };
  result?: CounterfactualResult | ClassResult | GlobalResult | null;
}

export interface Layer {
  type: string;
  [field: string]: unknown;
}

export interface Gnn {
  id: string;
  name: string;
  version: number;
  aliases: string[];
  description: string | null;
  state: "probing" | "ready" | "rejected";
  sha256: string;
  spec: {
    task: "graph" | "node";
    features: number;
    classes: number;
    class_names?: string[] | null;
    featuriser?: unknown;
    layers?: Layer[];
    [field: string]: unknown;
  };
  report: Report | null;
  created_at: string;
  job_id: string;
}

export interface Report {
  passed: boolean;
  checks: { name: string; passed: boolean; detail: string }[];
  warnings: string[];
}

export interface Dataset {
  id: string;
  name: string;
  version: number;
  graph_count: number;
  features: number;
  label_counts: Record<string, number>;
  max_nodes: number;
  mean_nodes: number;
  mean_edges: number;
  large: boolean;
  warnings: string[];
  created_at: string;
}

export interface Denoiser {
  id: string;
  gnn: string;
  dataset: string;
  objective: string;
  state: string;
  job: Job;
  created_at: string;
}

export interface DatasetGraph {
  position: number;
  label: number | null;
  graph: Graph | null;
  smiles: string | null;
}

export interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

export interface Readiness {
  status: string;
  accepts_submissions: boolean;
  reasons: string[];
  workers: { name: string; queues: string[]; device: string }[];
  queues: Record<string, { queued: number; waiting: number; running: number }>;
}

export interface Estimate {
  total_seconds: number;
  seconds: number;
  [field: string]: unknown;
}

export type Scope = "read" | "explain" | "register" | "admin";

export interface Session {
  tenant: string;
  scopes: Scope[];
  key_id: string | null;
  csrf_token: string | null;
  expires_at: string | null;
}

export interface Key {
  id: string;
  name: string;
  prefix: string;
  scopes: Scope[];
  state: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  key?: string;
}
