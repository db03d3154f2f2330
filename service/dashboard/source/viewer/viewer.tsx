// Shows counterfactuals of one graph: alternatives, edits, what-if, evidence, downloads.

import { useCallback, useMemo, useState } from "preact/hooks";
import { mayDo } from "../api";
import { classLabel, pairKey, percent, plural, predictedLabel, probability } from "../format";
import type { Counterfactual, CounterfactualAnswer, CounterfactualResult, Dataset, Explanation, Gnn, Graph, NodeId } from "../types";
import { Card, Probabilities, ProblemBox } from "../parts/basics";
import { Downloads } from "./downloads";
import { EditTable } from "./edit_table";
import { Evidence } from "./evidence";
import { FreezeAndAsk } from "./freeze_and_ask";
import { type Frozen, frozenOf, NOTHING_FROZEN, withEdge, withNode } from "../graphs/freeze_choice";
import { GraphDrawing } from "../graphs/graph_drawing";
import { GraphTable } from "./graph_table";
import { NearestGraph } from "./nearest_graph";
import { OtherVersionChoice, useOtherVersion } from "./other_version";
import { usePreview } from "../graphs/previews";
import { drawnEdges, neighbourhood, toggled, togglesOf, type Toggles } from "../graphs/undirected_edges";
import { VerdictText } from "./verdict_text";
import { useWhatIf, WhatIfText } from "./what_if";

const DRAWN_NODES = 512;
const NEIGHBOURS = 200;

interface Props {
  explanation: Explanation;
  result: CounterfactualResult;
  gnn: Gnn;
  dataset: Dataset | undefined; // undefined while it loads, or if it was deleted
  query: URLSearchParams;
}

export function Viewer(props: Props) {
  const [graph, setGraph] = useState(within(props.query.get("graph"), props.result.answers.length));
  const answer = props.result.answers[graph];
  if (answer === undefined) return null;
  const count = props.result.answers.length;
  const choose = (number: number) => {
    setGraph(number);
    setQuery({ graph: String(number), alternative: "0" });
  };
  return (
    <>
      {count > 1 && (
        <div class="row">
          <label>
            {answer.node === null ? "Graph" : "Node"}
            <select value={graph} onChange={(event) => choose(Number(event.currentTarget.value))}>
              {props.result.answers.map((one, number) => (
                <option key={number} value={number}>
                  {number + 1} of {count}
                  {one.node === null ? "" : `: ${one.node.id}`}
                  {one.counterfactuals.length + one.minimal.length === 0 ? " (none found)" : ""}
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
  const { answer, explanation, gnn, result } = props;
  const choices = useMemo(() => [...answer.counterfactuals, ...answer.minimal], [answer]);
  const [alternative, setAlternative] = useState(within(new URL(location.href).searchParams.get("alternative"), choices.length));
  const chosen = choices[alternative];
  const [toggles, setToggles] = useState<Toggles>(() => togglesOf(chosen?.edits ?? []));
  const [selected, setSelected] = useState<NodeId | null>(null);
  const [freezing, setFreezing] = useState(false);
  const [frozen, setFrozen] = useState<Frozen>(() => frozenIn(props.query));
  const shown = useShownGraph(answer, choices);
  const posted = useMemo(() => (shown.reduced || answer.molecule === null ? shown.graph : { smiles: answer.molecule.smiles }), [shown]);
  const { preview, problem } = usePreview(gnn.id, posted);
  const found = useWhatIf(explanation.id, props.graph, chosen, toggles);
  const other = useOtherVersion(explanation.id, props.graph, gnn, toggles);
  const mayAsk = mayDo("explain");

  const choose = (number: number) => {
    setAlternative(number);
    setToggles(togglesOf(choices[number]?.edits ?? []));
    setQuery({ graph: String(props.graph), alternative: String(number) });
  };
  const onToggle = useCallback((source: NodeId, target: NodeId) => setToggles((before) => toggled(before, source, target)), []);
  const onNode = useCallback(
    (node: NodeId) => {
      if (freezing) setFrozen((before) => withNode(before, node));
      else if (selected === null || selected === node) setSelected(selected === node ? null : node);
      else {
        onToggle(selected, node);
        setSelected(null);
      }
    },
    [freezing, selected],
  );
  const onEdge = useCallback(
    ({ source, target }: { source: NodeId; target: NodeId }) => (freezing ? setFrozen((before) => withEdge(before, source, target)) : onToggle(source, target)),
    [freezing],
  );
  const edges = useMemo(() => drawnEdges(shown.graph, toggles), [shown, toggles]);
  const frozenEdges = useMemo(() => new Set(frozen.edges.keys()), [frozen]);
  const rows = [
    { name: "before", prediction: answer.prediction, style: "before" },
    ...(chosen ? [{ name: "answer", prediction: chosen.prediction, style: "after" }] : []),
    ...(found.changed && found.prediction ? [{ name: "yours", prediction: found.prediction, style: "now" }] : []),
    ...(other.before ? [{ name: `v${other.chosen?.version}, before`, prediction: other.before, style: "before" }] : []),
    ...(other.after ? [{ name: `v${other.chosen?.version}, changed`, prediction: other.after, style: "after" }] : []),
  ];
  return (
    <>
      <Headline answer={answer} chosen={chosen} gnn={gnn} />
      {chosen && <VerdictText chosen={chosen} reason={result.unjudged_reason} isProvisional={result.stage === "provisional"} />}
      {choices.length > 1 && (
        <Alternatives choices={choices} believable={answer.counterfactuals.length} chosen={alternative} onChoose={choose} />
      )}
      <div class="viewer">
        <div>
          <Card title="Before and after in one layout" class="stage">
            <p class="keys" aria-hidden="true">
              <span class="key added" /> added <span class="key removed" /> removed <span class="key kept" /> kept
            </p>
            <ProblemBox problem={problem} />
            {shown.reduced && (
              <p class="muted">
                The graph has {plural(answer.graph.nodes.length, "node")}; the drawing shows {plural(shown.graph.nodes.length, "node")} around {shown.around}.
              </p>
            )}
            {preview && (
              <GraphDrawing
                preview={preview}
                edges={edges}
                label={describe(toggles, shown.graph)}
                explained={answer.node?.id ?? null}
                frozenNodes={frozen.nodes}
                frozenEdges={frozenEdges}
                selected={selected}
                onNode={onNode}
                onEdge={onEdge}
              />
            )}
            <p class="muted small">
              {freezing
                ? "Click nodes and edges to freeze or release them."
                : "Click an edge to remove or restore it, or two nodes one after the other to add an edge. The GNN answers at once."}
            </p>
            {preview && <GraphTable preview={preview} edges={edges} />}
          </Card>
          {chosen && (
            <NearestGraph explanation={explanation.id} gnn={gnn} dataset={props.dataset} graph={props.graph} targetClass={chosen.prediction.predicted_class} />
          )}
        </div>
        <div>
          <Card title="The GNN's answer">
            <Probabilities rows={rows} classNames={gnn.spec.class_names} />
            <OtherVersionChoice other={other} />
            <WhatIfText found={found} before={answer.prediction} />
            {found.changed && (
              <button type="button" onClick={() => setToggles(togglesOf(chosen?.edits ?? []))}>
                Back to the answer
              </button>
            )}
          </Card>
          <Card title="Edits">
            {chosen?.molecule && (
              <p class="small">
                {chosen.molecule.valid ? "A valid molecule: " : "No valid molecule: an atom has more bonds than it can have. "}
                {chosen.molecule.smiles !== null && <code>{chosen.molecule.smiles}</code>}
              </p>
            )}
            <EditTable nodes={answer.graph.nodes.map((node) => node.id)} edits={chosen?.edits ?? []} toggles={toggles} onToggle={onToggle} />
          </Card>
          {mayAsk && (
            <FreezeAndAsk {...props} shown={shown.graph} frozen={frozen} freezing={freezing} onFreezing={setFreezing} onFrozen={setFrozen} />
          )}
        </div>
      </div>
      {chosen && <Evidence answer={answer} chosen={chosen} result={result} />}
      <Downloads {...props} alternative={alternative} chosen={chosen} />
    </>
  );
}

function Headline({ answer, chosen, gnn }: { answer: CounterfactualAnswer; chosen: Counterfactual | undefined; gnn: Gnn }) {
  const before = classLabel(answer.prediction.predicted_class, gnn.spec.class_names);
  if (chosen === undefined) {
    return (
      <p class="headline">
        The GNN says <strong>{before}</strong> ({percent(probability(answer.prediction))}), and no counterfactual was found: {answer.reason ?? "the budget was used up"}.
        <span class="muted"> Toggle edges yourself, or ask again with more edits or another class.</span>
      </p>
    );
  }
  const after = classLabel(chosen.prediction.predicted_class, gnn.spec.class_names);
  return (
    <p class="headline">
      With {plural(chosen.edits.length, "edit")}, <strong>{before}</strong> ({percent(probability(answer.prediction))}) becomes{" "}
      <strong>{after}</strong> ({percent(probability(chosen.prediction))}).{" "}
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
            {one.verdict && <span class="muted"> {one.verdict}</span>}
            {number >= props.believable && <span class="muted"> minimal</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface Shown {
  graph: Graph;
  reduced: boolean;
  around: string; // what the drawing shows of a graph that is too large
}

// The graph to draw: the original, or the surroundings of all edits if it is too large.
function useShownGraph(answer: CounterfactualAnswer, choices: readonly Counterfactual[]): Shown {
  return useMemo(() => {
    if (answer.graph.nodes.length <= DRAWN_NODES) return { graph: answer.graph, reduced: false, around: "" };
    const ends = choices.flatMap((one) => one.edits.flatMap((edit) => [edit.source, edit.target]));
    const centres = new Set(answer.node === null ? ends : [answer.node.id, ...ends]);
    const first = answer.graph.nodes[0];
    if (centres.size === 0 && first !== undefined) centres.add(first.id);
    const around = ends.length > 0 ? "the edits" : `node ${[...centres][0]}`;
    return { graph: neighbourhood(answer.graph, centres, NEIGHBOURS), reduced: true, around };
  }, [answer]);
}

// What was frozen for this answer, if a person froze it in the viewer.
function frozenIn(query: URLSearchParams): Frozen {
  try {
    const [nodes, edges] = JSON.parse(query.get("frozen") ?? "") as [NodeId[], [NodeId, NodeId][]];
    return frozenOf(nodes, edges);
  } catch {
    return NOTHING_FROZEN;
  }
}

function describe(toggles: Toggles, graph: Graph): string {
  const present = new Set(graph.edges.map((edge) => pairKey(edge.source, edge.target)));
  const texts = [...toggles].map(([key, pair]) => `${present.has(key) ? "removed" : "added"} ${pair.source}–${pair.target}`);
  return `Graph with ${plural(graph.nodes.length, "node")} and ${plural(texts.length, "edit")}: ${texts.join(", ")}`;
}

function setQuery(values: Record<string, string>): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  history.replaceState(null, "", url);
}

function within(text: string | null, count: number): number {
  const number = Number(text ?? 0);
  return Number.isInteger(number) && number >= 0 && number < count ? number : 0;
}
