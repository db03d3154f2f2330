// Asks a question: choose a GNN, give a graph, freeze parts of it, set the class, see the estimate.

import { useEffect, useMemo, useState } from "preact/hooks";
import { mayDo, post, predict, type Problem } from "../api";
import { useEstimate } from "../estimates";
import { classLabel, duration } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, Probabilities, ProblemBox, Warnings } from "../parts/basics";
import { fittingSets } from "../reference_sets";
import { GnnSelect } from "../parts/gnn_select";
import { constraintsOf, FreezeChoice, NOTHING_FROZEN, withEdge, withNode } from "../graphs/freeze_choice";
import { GraphDrawing } from "../graphs/graph_drawing";
import { GraphInput } from "../graphs/graph_input";
import { keptEdges } from "../graphs/undirected_edges";
import type { Dataset, Estimate, Explanation, Gnn, NodeId, Page, Prediction, Preview } from "../types";

type Question = "counterfactual" | "class" | "global";

export function AskPage({ query }: { query: URLSearchParams }) {
  if (!mayDo("explain")) return <p role="alert">This key may look at explanations but not ask. Asking needs the scope explain.</p>;
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const problem = gnns.problem ?? datasets.problem;
  if (problem !== undefined) return <ProblemBox problem={problem} />;
  if (gnns.document === undefined || datasets.document === undefined) return <Loading />;
  const ready = gnns.document.items.filter((gnn) => gnn.state === "ready");
  if (ready.length === 0) {
    return (
      <>
        <h1>Ask</h1>
        <p>
          No GNN is ready. <PageLink to="/gnns">Register one</PageLink> first.
        </p>
      </>
    );
  }
  return <AskForm gnns={ready} datasets={datasets.document.items} chosen={query.get("gnn")} set={query.get("dataset")} />;
}

function AskForm(props: { gnns: Gnn[]; datasets: Dataset[]; chosen: string | null; set: string | null }) {
  const [gnnId, setGnnId] = useState(props.chosen ?? props.gnns[0]?.id ?? "");
  const gnn = props.gnns.find((one) => one.id === gnnId) ?? props.gnns[0];
  const fitting = fittingSets(gnn, props.datasets);
  const [datasetId, setDatasetId] = useState(props.set ?? "");
  const dataset = fitting.find((one) => one.id === datasetId) ?? fitting[0];
  const [question, setQuestion] = useState<Question>("counterfactual");
  if (gnn === undefined) return null;
  return (
    <>
      <h1>Ask</h1>
      <div class="row">
        <GnnSelect gnns={props.gnns} value={gnn.id} onChange={setGnnId} />
        <label>
          Reference set
          <select value={dataset?.id ?? ""} onChange={(event) => setDatasetId(event.currentTarget.value)}>
            {fitting.map((one) => (
              <option key={one.id} value={one.id}>
                {one.name}@{one.version} ({one.graph_count} graphs)
              </option>
            ))}
          </select>
        </label>
        <fieldset>
          <legend>Question</legend>
          <label>
            <input type="radio" name="question" checked={question === "counterfactual"} onChange={() => setQuestion("counterfactual")} /> What would
            change the answer for a graph?
          </label>
          <label>
            <input type="radio" name="question" checked={question === "class"} onChange={() => setQuestion("class")} /> What does a class look like?
          </label>
          <label>
            <input type="radio" name="question" checked={question === "global"} onChange={() => setQuestion("global")} /> Which few graphs of another
            class are near to many graphs of a class?
          </label>
        </fieldset>
      </div>
      {dataset === undefined ? (
        <p role="alert">No reference set has {gnn.spec.features} features per node, as this GNN reads.</p>
      ) : question === "class" ? (
        <AskClass gnn={gnn} dataset={dataset} />
      ) : question === "global" ? (
        <AskGlobal gnn={gnn} dataset={dataset} />
      ) : (
        <AskGraph key={gnn.id} gnn={gnn} dataset={dataset} />
      )}
    </>
  );
}

function ClassChoice(props: { gnn: Gnn; value: string; any?: boolean; onChange: (value: string) => void }) {
  return (
    <label>
      {props.any ? "Class that the answer should become" : "Class"}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.any && <option value="">any other class</option>}
        {Array.from({ length: props.gnn.spec.classes }, (_, number) => (
          <option key={number} value={number}>
            {classLabel(number, props.gnn.spec.class_names)}
          </option>
        ))}
      </select>
    </label>
  );
}

function AskClass({ gnn, dataset }: { gnn: Gnn; dataset: Dataset }) {
  const [target, setTarget] = useState("0");
  const body = { kind: "class", gnn: gnn.id, dataset: dataset.id, target_class: Number(target) };
  return (
    <Card title="Patterns of a class">
      <ClassChoice gnn={gnn} value={target} onChange={setTarget} />
      <Submission body={body} hasEstimate={false} />
    </Card>
  );
}

function AskGlobal({ gnn, dataset }: { gnn: Gnn; dataset: Dataset }) {
  const [source, setSource] = useState("0");
  const [count, setCount] = useState("10");
  const [theta, setTheta] = useState("0.1");
  const body = useMemo(
    () => ({ kind: "global", gnn: gnn.id, dataset: dataset.id, source_class: Number(source), count: Number(count), theta: Number(theta) }),
    [gnn, dataset, source, count, theta],
  );
  return (
    <Card title="Global counterfactuals">
      <p class="muted">The graphs of the reference set that the GNN gives this class are covered by few graphs of another class.</p>
      <div class="row">
        <ClassChoice gnn={gnn} value={source} onChange={setSource} />
        <label>
          Graphs at most
          <input type="number" min="1" max="32" value={count} onInput={(event) => setCount(event.currentTarget.value)} />
        </label>
        <label>
          Edits per node and edge, θ
          <input type="number" min="0.01" max="0.2" step="0.01" value={theta} onInput={(event) => setTheta(event.currentTarget.value)} />
        </label>
      </div>
      <Submission body={body} />
    </Card>
  );
}

function AskGraph({ gnn, dataset }: { gnn: Gnn; dataset: Dataset }) {
  const [posted, setPosted] = useState<unknown>();
  const [preview, setPreview] = useState<Preview>();
  const [prediction, setPrediction] = useState<Prediction>();
  const [problem, setProblem] = useState<Problem>();
  const [frozen, setFrozen] = useState(NOTHING_FROZEN);
  const [node, setNode] = useState<NodeId | null>(null);
  const [target, setTarget] = useState("");
  const [actions, setActions] = useState("both");
  const [aim, setAim] = useState("believable");
  const [maxEdits, setMaxEdits] = useState("");
  const [maxShare, setMaxShare] = useState("30");
  const [connected, setConnected] = useState(false);
  const [quick, setQuick] = useState(false);
  const classifiesNodes = gnn.spec.task === "node";

  useEffect(() => {
    if (posted === undefined) return;
    const abort = new AbortController();
    setProblem(undefined);
    setPrediction(undefined);
    setFrozen(NOTHING_FROZEN);
    setNode(null);
    post<Preview>(`/v1/gnns/${gnn.id}/graph-previews`, { graph: posted }, {}, abort.signal)
      .then((found) => {
        setPreview(found);
        if (classifiesNodes) return;
        return predict(gnn.id, posted, abort.signal).then(setPrediction);
      })
      .catch((error: Problem) => {
        if (!abort.signal.aborted) {
          setPreview(undefined);
          setProblem(error);
        }
      });
    return () => abort.abort();
  }, [posted, gnn.id]);

  const body = useMemo(
    () =>
      preview && {
        kind: "counterfactual",
        gnn: gnn.id,
        dataset: dataset.id,
        graph: posted,
        ...(classifiesNodes && node !== null ? { node } : {}),
        ...(target === "" ? {} : { target_class: Number(target) }),
        ...(quick ? { aim: "minimal", explainer: "search", judges: "none" } : { aim }),
        constraints: {
          actions,
          keep_connected: connected,
          ...(maxEdits === "" ? {} : { max_edits: Number(maxEdits) }),
          ...(maxShare === "" ? {} : { max_ratio: Number(maxShare) / 100 }),
          ...constraintsOf(frozen),
        },
      },
    [preview, gnn, dataset, node, target, aim, actions, connected, maxEdits, maxShare, quick, frozen],
  );

  const onNode = (chosen: NodeId) => {
    if (classifiesNodes && node === null) setNode(chosen);
    else setFrozen(withNode(frozen, chosen));
  };

  return (
    <>
      <GraphInput gnn={gnn} dataset={dataset} onGraph={setPosted} />
      <ProblemBox problem={problem} />
      {preview && (
        <div class="columns">
          <Card title="Your graph">
            <p class="muted">
              {classifiesNodes && node === null
                ? "Choose the node to explain."
                : "Click nodes and edges that must stay as they are."}
            </p>
            <GraphDrawing
              preview={preview}
              edges={keptEdges(preview.graph)}
              label={`The graph: ${preview.graph.nodes.length} nodes, ${preview.graph.edges.length} edges`}
              explained={node}
              frozenNodes={frozen.nodes}
              frozenEdges={new Set(frozen.edges.keys())}
              onNode={onNode}
              onEdge={(edge) => setFrozen(withEdge(frozen, edge.source, edge.target))}
            />
            {classifiesNodes && <NodeChoice preview={preview} node={node} onExplain={setNode} />}
            <FreezeChoice graph={preview.graph} frozen={frozen} onFrozen={setFrozen} />
            <Warnings texts={preview.warnings} />
          </Card>
          <Card title="Question">
            {prediction && <Probabilities classNames={gnn.spec.class_names} rows={[{ name: "now", prediction, style: "before" }]} />}
            <div class="stack">
              <ClassChoice gnn={gnn} value={target} any onChange={setTarget} />
              <label class="check">
                <input type="checkbox" checked={quick} onChange={(event) => setQuick(event.currentTarget.checked)} /> search only: nothing is trained, nobody judges the answer
              </label>
              <label>
                Aim
                <select value={quick ? "minimal" : aim} disabled={quick} onChange={(event) => setAim(event.currentTarget.value)}>
                  <option value="believable">believable: other networks agree</option>
                  <option value="minimal">minimal: fewest edits</option>
                  <option value="both">both</option>
                </select>
              </label>
              <label>
                Edits
                <select value={actions} onChange={(event) => setActions(event.currentTarget.value)}>
                  <option value="both">add and remove edges</option>
                  <option value="add">add edges only</option>
                  <option value="remove">remove edges only</option>
                </select>
              </label>
              <label>
                Most edits
                <input type="number" min="1" max="64" value={maxEdits} placeholder="any number" onInput={(event) => setMaxEdits(event.currentTarget.value)} />
              </label>
              <label>
                At most this share of the edges, in percent
                <input type="number" min="1" max="100" value={maxShare} placeholder="30" onInput={(event) => setMaxShare(event.currentTarget.value)} />
              </label>
              <label class="check">
                <input type="checkbox" checked={connected} onChange={(event) => setConnected(event.currentTarget.checked)} /> keep the graph connected
              </label>
            </div>
            {classifiesNodes && node === null ? <p class="muted">Choose a node first.</p> : <Submission body={body} />}
          </Card>
        </div>
      )}
    </>
  );
}

function NodeChoice(props: { preview: Preview; node: NodeId | null; onExplain: (node: NodeId | null) => void }) {
  const nodes = props.preview.graph.nodes;
  return (
    <label>
      Node to explain
      <select
        value={nodes.findIndex((one) => one.id === props.node)}
        onChange={(event) => props.onExplain(nodes[Number(event.currentTarget.value)]?.id ?? null)}
      >
        <option value={-1}>none yet</option>
        {nodes.map((one, number) => (
          <option key={number} value={number}>
            {String(one.id)}
          </option>
        ))}
      </select>
    </label>
  );
}

// The estimate of a question, and the button that asks it.
function Submission({ body, hasEstimate = true }: { body: unknown; hasEstimate?: boolean }) {
  const { estimate, problem } = useEstimate<Estimate>("/v1/explanations", hasEstimate ? body : undefined);
  const [refusal, setRefusal] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const text = JSON.stringify(body);
  useEffect(() => setRefusal(undefined), [text]);
  const ask = async () => {
    setBusy(true);
    try {
      const explanation = await post<Explanation>("/v1/explanations", body);
      navigate(`/explanations/${explanation.id}`);
    } catch (error) {
      setRefusal(error as Problem);
      setBusy(false);
    }
  };
  return (
    <>
      <ProblemBox problem={refusal ?? problem} />
      {estimate && problem === undefined && (
        <p class="muted" role="status">
          About {duration(estimate.total_seconds)} of work
          {estimate.trains_denoiser === true || estimate.trains_witnesses === true ? ": networks are trained first, once for this GNN and reference set" : ""}.
          {estimate.provisional === true && " A provisional answer comes within seconds."}
        </p>
      )}
      {!hasEstimate && (
        <p class="muted">
          There is no estimate for patterns of a class. Patterns from the reference graphs come first; the final answer may train a denoiser, which
          takes minutes, once for this GNN and reference set.
        </p>
      )}
      <button type="button" class="primary" disabled={busy || body === undefined} onClick={ask}>
        Ask
      </button>
    </>
  );
}
