// The reference sets that a GNN can read.

import type { Dataset, Gnn } from "./types";

// Newest first; sets that an evaluation made by holding a part out come last, so none is preselected.
export function fittingSets(gnn: Gnn | undefined, datasets: readonly Dataset[]): Dataset[] {
  const fitting = datasets.filter((one) => one.features === gnn?.spec.features && !one.large);
  return [...fitting.filter((one) => !isRest(one)), ...fitting.filter(isRest)];
}

function isRest(dataset: Dataset): boolean {
  return dataset.warnings.some((warning) => warning.endsWith("that no evaluation holds out"));
}
