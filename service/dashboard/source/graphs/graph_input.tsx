// Where a graph comes from: pasted or dropped text, SMILES, or a graph of the reference set.

import { useState } from "preact/hooks";
import { Problem } from "../api";
import { classLabel } from "../format";
import { useDocument } from "../loading";
import type { Dataset, DatasetGraph, Gnn } from "../types";
import { Card, ProblemBox } from "../parts/basics";
import { parseGraph } from "./parse_graph";

const PAGE = 10;

export function GraphInput(props: { gnn: Gnn; dataset: Dataset; onGraph: (graph: unknown) => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const read = (content: string) => {
    setText(content);
    try {
      props.onGraph(parseGraph(content));
      setProblem(undefined);
    } catch (error) {
      setProblem(new Problem(0, (error as Error).message));
    }
  };
  const takesSmiles = props.gnn.spec.featuriser !== null && props.gnn.spec.featuriser !== undefined;
  return (
    <div class="columns">
      <Card title="Paste or drop a graph">
        <label class="hidden" for="graph-text">
          Graph
        </label>
        <textarea
          id="graph-text"
          rows={6}
          value={text}
          placeholder={`NetworkX node-link JSON, a PyG dict, GraphML, Cytoscape JSON, edges such as "a b", one per line${takesSmiles ? ", or SMILES such as c1ccccc1N" : ""}`}
          onInput={(event) => setText(event.currentTarget.value)}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            const file = event.dataTransfer?.files[0];
            if (file === undefined) return;
            event.preventDefault();
            void file.text().then(read);
          }}
        />
        <div class="row">
          <button type="button" disabled={text.trim() === ""} onClick={() => read(text)}>
            Read the graph
          </button>
          <label>
            or a file
            <input
              type="file"
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file !== undefined) void file.text().then(read);
              }}
            />
          </label>
        </div>
        <ProblemBox problem={problem} />
      </Card>
      <Picker key={props.dataset.id} {...props} />
    </div>
  );
}

function Picker(props: { gnn: Gnn; dataset: Dataset; onGraph: (graph: unknown) => void }) {
  const [offset, setOffset] = useState(0);
  const [chosen, setChosen] = useState<number>();
  const found = useDocument<{ graphs: DatasetGraph[]; graph_count: number }>(
    `/v1/datasets/${props.dataset.id}/graphs?offset=${offset}&limit=${PAGE}`,
  );
  const choose = (graph: DatasetGraph) => {
    setChosen(graph.position);
    props.onGraph(graph.smiles === null ? graph.graph : { smiles: graph.smiles });
  };
  return (
    <Card title={`Or pick one of ${props.dataset.name}`}>
      <ProblemBox problem={found.problem} />
      <ul class="picker">
        {found.document?.graphs.map((graph) => (
          <li key={graph.position}>
            <button type="button" class="plain" aria-pressed={chosen === graph.position} onClick={() => choose(graph)}>
              {graph.position + 1}. {graph.smiles ?? `${graph.graph?.nodes.length} nodes, ${graph.graph?.edges.length} edges`}
              {graph.label !== null && <span class="muted"> · {classLabel(graph.label, props.gnn.spec.class_names)}</span>}
            </button>
          </li>
        ))}
      </ul>
      <div class="row">
        <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>
          Previous
        </button>
        <span class="muted">
          {offset + 1} to {Math.min(offset + PAGE, props.dataset.graph_count)} of {props.dataset.graph_count}
        </span>
        <button type="button" disabled={offset + PAGE >= props.dataset.graph_count} onClick={() => setOffset(offset + PAGE)}>
          Next
        </button>
      </div>
    </Card>
  );
}
