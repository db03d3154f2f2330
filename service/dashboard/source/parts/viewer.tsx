// Shows counterfactuals of one graph: alternatives, edits, what-if, evidence, downloads.

import { useEffect, useMemo, useState } from "preact/hooks";
import { post, predict, type Problem } from "../api";
import { classLabel, pairKey, percent, plural, predictedLabel, probability } from "../format";
import { navigate } from "../navigation";
import type {
  Counterfactual,
  CounterfactualAnswer,
  CounterfactualResult,
  Explanation,
  Gnn,
  Graph,
  NodeId,
  Prediction,
  Preview,
} from "../types";
import { Card, Probabilities, ProblemBox, VerdictPill } from "./basics";
import { Downloads } from "./downloads";
import { EditTable } from "./edit_table";
import { Evidence } from "./evidence";
import { GraphDrawing } from "./graph_drawing";
import { drawnEdges, edited, neighbourhood, toggled, togglesOf, type Toggles } from "./undirected_edges";

const DRAWN_NODES = 512;
const NEIGHBOURS = 200;

interface Props {
  explanation: Explanation;
  result: CounterfactualResult;
  gnn: Gnn;
  query: URLSearchParams;
}

export function Viewer(props: Props) {
  const [graph, setGraph] = useState(within(props.query.get("graph"), props.result.answers.length));
  const answer = props.result.answers[graph];
  if (answer === undefined) return null;
  const count = props.result.answers.length;
  return (
    <>
      {count > 1 && (
        <div class="row">
          <label>
            {answer.node === null ? "Graph" : "Node"}
            <select value={graph} onChange={(event) => setGraph(Number(event.currentTarget.value))}>
              {props.result.answers.map((one, number) => (
                <option key={number} value={number}>
                  {number + 1} of {count}
                  {one.found ? "" : " (none found)"}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <AnswerViewer key={graph} {...props} graph={graph} answer={answer} />
    </>
  );
}

function AnswerViewer(props: Props & { graph: number; answer: CounterfactualAnswer }) {
  const { answer, gnn } = props;
  const choices = useMemo(() => [...answer.counterfactuals, ...answer.minimal], [answer]);
  const [alternative, setAlternative] = useState(within(props.query.get("alternative"), choices.length));
  const chosen = choices[alternative];
  const [toggles, setToggles] = useState<Toggles>(() => togglesOf(chosen?.edits ?? []));
  const [selected, setSelected] = useState<NodeId | null>(null);
  const [freezing, setFreezing] = useState(false);
  const [frozen, setFrozen] = useState<ReadonlySet<NodeId>>(new Set());
  const shown = useShownGraph(answer, choices);
  const { preview, problem } = usePreview(gnn.id, answer, shown);
  const whatIf = useWhatIf(gnn.id, answer, chosen, toggles);

  const choose = (number: number) => {
    setAlternative(number);
    setToggles(togglesOf(choices[number]?.edits ?? []));
    const url = new URL(location.href);
    url.searchParams.set("graph", String(props.graph));
    url.searchParams.set("alternative", String(number));
    history.replaceState(null, "", url);
  };
  const onNode = (node: NodeId) => {
    if (freezing) {
      const next = new Set(frozen);
      if (!next.delete(node)) next.add(node);
      setFrozen(next);
    } else if (selected === null || selected === node) {
      setSelected(selected === node ? null : node);
    } else {
      setToggles(toggled(toggles, selected, node));
      setSelected(null);
    }
  };
  const rows = [
    { name: "before", prediction: answer.prediction, style: "before" },
    ...(chosen ? [{ name: "answer", prediction: chosen.prediction, style: "after" }] : []),
    ...(whatIf.changed && whatIf.prediction ? [{ name: "now", prediction: whatIf.prediction, style: "now" }] : []),
  ];
  return (
    <>
      <Headline answer={answer} chosen={chosen} gnn={gnn} />
      {choices.length > 1 && (
        <Alternatives choices={choices} believable={answer.counterfactuals.length} chosen={alternative} onChoose={choose} />
      )}
      <div class="viewer">
        <Card title="Before and after in one layout" class="stage">
          <p class="keys" aria-hidden="true">
            <span class="key added" /> added <span class="key removed" /> removed <span class="key kept" /> kept
          </p>
          <ProblemBox problem={problem} />
          {shown.reduced && <p class="muted">The graph is large; the drawing shows the neighbourhood of the edits.</p>}
          {preview && (
            <GraphDrawing
              preview={preview}
              edges={drawnEdges(shown.graph, toggles)}
              label={describe(toggles, shown.graph)}
              explained={answer.node?.id ?? null}
              frozenNodes={frozen}
              selected={selected}
              onNode={onNode}
              onEdge={(edge) => setToggles(toggled(toggles, edge.source, edge.target))}
            />
          )}
          <p class="muted small">
            Click an edge to remove or restore it, or two nodes one after the other to add an edge. The GNN answers at once.
          </p>
        </Card>
        <div>
          <Card title="The GNN's answer">
            <Probabilities rows={rows} classNames={gnn.spec.class_names} />
            <WhatIfText whatIf={whatIf} before={answer.prediction} />
            {whatIf.changed && (
              <button type="button" onClick={() => setToggles(togglesOf(chosen?.edits ?? []))}>
                Back to the answer
              </button>
            )}
          </Card>
          <Card title="Edits">
            <EditTable
              nodes={answer.graph.nodes.map((node) => node.id)}
              edits={chosen?.edits ?? []}
              toggles={toggles}
              onToggle={(source, target) => setToggles(toggled(toggles, source, target))}
            />
          </Card>
        </div>
      </div>
      {chosen && <Evidence answer={answer} chosen={chosen} result={props.result} />}
      <div class="columns">
        <FreezeAndAsk {...props} frozen={frozen} freezing={freezing} onFreezing={setFreezing} onFrozen={setFrozen} />
        <Downloads {...props} alternative={alternative} chosen={chosen} />
      </div>
    </>
  );
}

function Headline({ answer, chosen, gnn }: { answer: CounterfactualAnswer; chosen: Counterfactual | undefined; gnn: Gnn }) {
  const before = classLabel(answer.prediction.predicted_class, gnn.spec.class_names);
  if (chosen === undefined) {
    return <p class="headline">{answer.reason ?? "No counterfactual was found within the budget."}</p>;
  }
  const after = classLabel(chosen.prediction.predicted_class, gnn.spec.class_names);
  return (
    <p class="headline">
      With {plural(chosen.edits.length, "edit")}, <strong>{before}</strong> ({percent(probability(answer.prediction))}) becomes{" "}
      <strong>{after}</strong> ({percent(probability(chosen.prediction))}). {chosen.verdict && <VerdictPill verdict={chosen.verdict} />}{" "}
      {!answer.found && <span class="muted">No believable answer was found; this one is minimal.</span>}
    </p>
  );
}

function Alternatives(props: { choices: Counterfactual[]; believable: number; chosen: number; onChoose: (number: number) => void }) {
  return (
    <fieldset class="alternatives">
      <legend>Alternatives (arrow keys)</legend>
      {props.choices.map((one, number) => (
        <label key={number}>
          <input type="radio" name="alternative" checked={number === props.chosen} onChange={() => props.onChoose(number)} />
          <span>
            {number + 1}: {plural(one.edits.length, "edit")} → {predictedLabel(one.prediction)}
            {number >= props.believable && <span class="muted"> minimal</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface WhatIf {
  changed: boolean;
  prediction: Prediction | undefined;
  problem: Problem | undefined;
  busy: boolean;
}

// Asks the GNN about the graph with the toggled pairs, if they differ from the answer's edits.
function useWhatIf(gnn: string, answer: CounterfactualAnswer, chosen: Counterfactual | undefined, toggles: Toggles): WhatIf {
  const [prediction, setPrediction] = useState<Prediction>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const changed = !sameKeys(toggles, togglesOf(chosen?.edits ?? []));
  useEffect(() => {
    if (!changed) {
      setPrediction(undefined);
      setProblem(undefined);
      return;
    }
    const abort = new AbortController();
    setBusy(true);
    predict(gnn, edited(answer.graph, toggles, chosen?.graph), answer.node?.id ?? null, abort.signal)
      .then(
        (found) => {
          setPrediction(found);
          setProblem(undefined);
        },
        (error: Problem) => {
          if (!abort.signal.aborted) setProblem(error);
        },
      )
      .finally(() => {
        if (!abort.signal.aborted) setBusy(false);
      });
    return () => abort.abort();
  }, [toggles, changed]);
  return { changed, prediction, problem, busy };
}

function WhatIfText({ whatIf, before }: { whatIf: WhatIf; before: Prediction }) {
  if (whatIf.problem) return <ProblemBox problem={whatIf.problem} />;
  if (!whatIf.changed) return null;
  const now = whatIf.prediction;
  if (now === undefined) return <p role="status">The GNN is asked …</p>;
  const flipped = now.predicted_class !== before.predicted_class;
  return (
    <p role="status" aria-busy={whatIf.busy}>
      With your changes the GNN says <strong>{predictedLabel(now)}</strong> ({percent(probability(now))}):{" "}
      {flipped ? "still another class than before." : "the class of the original graph."}
    </p>
  );
}

function FreezeAndAsk(
  props: Props & {
    answer: CounterfactualAnswer;
    frozen: ReadonlySet<NodeId>;
    freezing: boolean;
    onFreezing: (on: boolean) => void;
    onFrozen: (nodes: ReadonlySet<NodeId>) => void;
  },
) {
  const [problem, setProblem] = useState<Problem>();
  const [position, setPosition] = useState(0);
  const nodes = props.answer.graph.nodes;
  const ask = () => {
    const { answer, explanation } = props;
    const body = {
      kind: "counterfactual",
      gnn: explanation.gnn,
      dataset: explanation.dataset,
      graph: answer.molecule === null ? answer.graph : { smiles: answer.molecule.smiles },
      ...(answer.node === null ? {} : { node: answer.node.id }),
      ...(explanation.denoiser === null ? { explainer: "search" } : { denoiser: explanation.denoiser }),
      constraints: { frozen_nodes: [...props.frozen] },
    };
    post<Explanation>("/v1/explanations", body).then((next) => navigate(`/explanations/${next.id}`), setProblem);
  };
  const toggle = (node: NodeId) => {
    const next = new Set(props.frozen);
    if (!next.delete(node)) next.add(node);
    props.onFrozen(next);
  };
  return (
    <Card title="Freeze and ask again">
      <label class="check">
        <input type="checkbox" checked={props.freezing} onChange={(event) => props.onFreezing(event.currentTarget.checked)} /> clicks freeze nodes
      </label>
      <div class="row">
        <label>
          Node
          <select value={position} onChange={(event) => setPosition(Number(event.currentTarget.value))}>
            {nodes.map((node, number) => (
              <option key={number} value={number}>
                {String(node.id)}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          onClick={() => {
            const node = nodes[position];
            if (node !== undefined) toggle(node.id);
          }}
        >
          Freeze or release
        </button>
      </div>
      <p role="status">{props.frozen.size === 0 ? "Nothing is frozen." : `Frozen nodes: ${[...props.frozen].join(", ")}.`}</p>
      <ProblemBox problem={problem} />
      <button type="button" class="primary" disabled={props.frozen.size === 0} onClick={ask}>
        Ask again
      </button>
    </Card>
  );
}

interface Shown {
  graph: Graph;
  reduced: boolean;
}

// The graph to draw: the original, or the surroundings of all edits if it is too large.
function useShownGraph(answer: CounterfactualAnswer, choices: readonly Counterfactual[]): Shown {
  return useMemo(() => {
    if (answer.graph.nodes.length <= DRAWN_NODES) return { graph: answer.graph, reduced: false };
    const ends = choices.flatMap((one) => one.edits.flatMap((edit) => [edit.source, edit.target]));
    const centres = new Set(answer.node === null ? ends : [answer.node.id, ...ends]);
    return { graph: neighbourhood(answer.graph, centres, NEIGHBOURS), reduced: true };
  }, [answer]);
}

function usePreview(gnn: string, answer: CounterfactualAnswer, shown: Shown) {
  const [preview, setPreview] = useState<Preview>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const abort = new AbortController();
    const molecule = shown.reduced ? null : answer.molecule;
    const graph = molecule === null ? shown.graph : { smiles: molecule.smiles };
    post<Preview>(`/v1/gnns/${gnn}/graph-previews`, { graph }, {}, abort.signal).then(setPreview, (error: Problem) => {
      if (!abort.signal.aborted) setProblem(error);
    });
    return () => abort.abort();
  }, [gnn, shown]);
  return { preview, problem };
}

function describe(toggles: Toggles, graph: Graph): string {
  const present = new Set(graph.edges.map((edge) => pairKey(edge.source, edge.target)));
  const texts = [...toggles].map(([key, pair]) => `${present.has(key) ? "removed" : "added"} ${pair.source}–${pair.target}`);
  return `Graph with ${plural(graph.nodes.length, "node")} and ${plural(texts.length, "edit")}: ${texts.join(", ")}`;
}

function sameKeys(one: Toggles, other: Toggles): boolean {
  return one.size === other.size && [...one.keys()].every((key) => other.has(key));
}

function within(text: string | null, count: number): number {
  const number = Number(text ?? 0);
  return Number.isInteger(number) && number >= 0 && number < count ? number : 0;
}
