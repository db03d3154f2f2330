// The GNN's answer for the graph with a person's changes, asked at every change.

import { useEffect, useState } from "preact/hooks";
import { type Problem, whatIf } from "../api";
import { percent, predictedLabel, probability } from "../format";
import type { Counterfactual, Prediction } from "../types";
import { ProblemBox } from "../parts/basics";
import { sameToggles, togglesOf, type Toggles } from "../graphs/undirected_edges";

export interface WhatIf {
  changed: boolean; // the toggled pairs differ from the answer's edits
  prediction: Prediction | undefined;
  problem: Problem | undefined;
  busy: boolean;
}

export function useWhatIf(explanation: string, graph: number, chosen: Counterfactual | undefined, toggles: Toggles): WhatIf {
  const [prediction, setPrediction] = useState<Prediction>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const changed = !sameToggles(toggles, togglesOf(chosen?.edits ?? []));
  useEffect(() => {
    setProblem(undefined);
    if (!changed) {
      setPrediction(undefined);
      return;
    }
    const abort = new AbortController();
    setBusy(true);
    whatIf(explanation, graph, [...toggles.values()], abort.signal)
      .then(setPrediction, (error: Problem) => {
        if (!abort.signal.aborted) setProblem(error);
      })
      .finally(() => {
        if (!abort.signal.aborted) setBusy(false);
      });
    return () => abort.abort();
  }, [toggles, changed]);
  return { changed, prediction, problem, busy };
}

export function WhatIfText({ found, before }: { found: WhatIf; before: Prediction }) {
  if (found.problem) return <ProblemBox problem={found.problem} />;
  if (!found.changed) return null;
  const now = found.prediction;
  if (now === undefined) return <p role="status">The GNN is asked …</p>;
  const flipped = now.predicted_class !== before.predicted_class;
  return (
    <p role="status" aria-busy={found.busy}>
      With your changes the GNN says <strong>{predictedLabel(now)}</strong> ({percent(probability(now))}):{" "}
      {flipped ? "still another class than before." : "the class of the original graph."}
    </p>
  );
}
