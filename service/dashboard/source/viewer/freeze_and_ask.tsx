// Asks the same question again, with parts of the graph frozen.

import { useState } from "preact/hooks";
import { post, type Problem } from "../api";
import { navigate } from "../navigation";
import type { CounterfactualAnswer, CounterfactualResult, Dataset, Explanation, Graph } from "../types";
import { Card, ProblemBox } from "../parts/basics";
import { constraintsOf, FreezeChoice, type Frozen } from "../graphs/freeze_choice";

export function FreezeAndAsk(props: {
  explanation: Explanation;
  result: CounterfactualResult;
  dataset: Dataset | undefined;
  answer: CounterfactualAnswer;
  shown: Graph;
  frozen: Frozen;
  freezing: boolean;
  onFreezing: (on: boolean) => void;
  onFrozen: (frozen: Frozen) => void;
}) {
  const [problem, setProblem] = useState<Problem>();
  const nothing = props.frozen.nodes.size + props.frozen.edges.size === 0;
  const ask = () => {
    post<Explanation>("/v1/explanations", question(props)).then((next) => {
      // The next page knows what is frozen, so that more can be frozen there.
      const { frozen_nodes, frozen_edges } = constraintsOf(props.frozen);
      navigate(`/explanations/${next.id}?${new URLSearchParams({ frozen: JSON.stringify([frozen_nodes, frozen_edges]) })}`);
    }, setProblem);
  };
  return (
    <Card title="Freeze and ask again">
      <p class="muted small">Freeze what cannot change in reality. The next answer leaves it alone; everything else is asked as before.</p>
      <label class="check">
        <input type="checkbox" checked={props.freezing} onChange={(event) => props.onFreezing(event.currentTarget.checked)} /> clicks in the drawing freeze nodes and edges
      </label>
      <FreezeChoice graph={props.shown} frozen={props.frozen} onFrozen={props.onFrozen} />
      <ProblemBox problem={problem} />
      <button type="button" class="primary" disabled={nothing} onClick={ask}>
        Ask again
      </button>
    </Card>
  );
}

// The receipt has what was asked; the target class, aim, limits and explainer stay the same.
function question({ explanation, result, dataset, answer, frozen }: Parameters<typeof FreezeAndAsk>[0]): unknown {
  const { target_class, aim, alternatives, explainer, preset, judges, constraints } = result.receipt.config;
  const posted = answer.molecule === null ? answer.graph : { smiles: answer.molecule.smiles };
  return {
    kind: "counterfactual",
    gnn: explanation.gnn,
    dataset: explanation.dataset,
    ...(dataset?.large ? {} : { graph: posted }),
    ...(answer.node === null ? {} : { node: answer.node.id }),
    ...(explanation.denoiser === null ? { explainer: "search" } : { denoiser: explanation.denoiser, ...(explainer ? { explainer } : {}) }),
    ...(target_class == null ? {} : { target_class }),
    ...(aim ? { aim } : {}),
    ...(alternatives ? { alternatives } : {}),
    ...(preset ? { preset } : {}),
    ...(judges === "none" ? { judges } : {}),
    constraints: { ...constraints, ...constraintsOf(frozen) },
  };
}
