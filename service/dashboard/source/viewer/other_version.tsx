// Another version of the GNN beside the explained one: its answers for the same graph and edits.

import { useEffect, useState } from "preact/hooks";
import { type Problem, whatIf } from "../api";
import { gnnLabel, predictedLabel } from "../format";
import { useDocument } from "../loading";
import type { Gnn, Page, Prediction } from "../types";
import { ProblemBox } from "../parts/basics";
import type { Toggles } from "../graphs/undirected_edges";

export interface OtherVersion {
  versions: Gnn[]; // to choose from
  chosen: Gnn | undefined;
  choose: (id: string) => void;
  before: Prediction | undefined;
  after: Prediction | undefined; // with the edits that the drawing shows
  problem: Problem | undefined;
}

export function useOtherVersion(explanation: string, graph: number, gnn: Gnn, toggles: Toggles): OtherVersion {
  const found = useDocument<Page<Gnn>>(gnn.spec.task === "graph" ? `/v1/gnns?name=${encodeURIComponent(gnn.name)}&limit=200` : null);
  const versions = (found.document?.items ?? []).filter(
    (one) => one.id !== gnn.id && one.state === "ready" && one.spec.features === gnn.spec.features && one.spec.classes === gnn.spec.classes,
  );
  const [id, choose] = useState("");
  const [answers, setAnswers] = useState<{ before: Prediction; after: Prediction }>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    setProblem(undefined);
    setAnswers(undefined);
    if (id === "") return;
    const abort = new AbortController();
    const ask = (pairs: Toggles) => whatIf(explanation, graph, [...pairs.values()], abort.signal, id);
    Promise.all([ask(new Map()), ask(toggles)]).then(
      ([before, after]) => setAnswers({ before, after }),
      (error: Problem) => {
        if (!abort.signal.aborted) setProblem(error);
      },
    );
    return () => abort.abort();
  }, [id, toggles]);
  return { versions, chosen: versions.find((one) => one.id === id), choose, before: answers?.before, after: answers?.after, problem };
}

export function OtherVersionChoice({ other }: { other: OtherVersion }) {
  const { versions, chosen } = other;
  if (versions.length === 0) return null;
  return (
    <>
      <label>
        Beside another version
        <select value={chosen?.id ?? ""} onChange={(event) => other.choose(event.currentTarget.value)}>
          <option value="">none</option>
          {versions.map((one) => (
            <option key={one.id} value={one.id}>
              {gnnLabel(one, one.id)}
            </option>
          ))}
        </select>
      </label>
      <ProblemBox problem={other.problem} />
      {chosen !== undefined && other.before && other.after && <p role="status">{sentence(gnnLabel(chosen, chosen.id), other.before, other.after)}</p>}
    </>
  );
}

function sentence(name: string, before: Prediction, after: Prediction): string {
  const same = before.predicted_class === after.predicted_class;
  return `${name} calls the original ${predictedLabel(before)}, and the changed graph ${same ? `${predictedLabel(after)}, too` : predictedLabel(after)}.`;
}
