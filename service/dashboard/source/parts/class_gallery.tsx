// The patterns of a class: evidence, the pattern marked in real graphs, and the chain that led to it.

import { classLabel, percent, plural } from "../format";
import type { ClassExample, ClassResult, Gnn, Graph, NodeId } from "../types";
import { Card, ProblemBox, Table } from "./basics";
import { GraphDrawing } from "../graphs/graph_drawing";
import { usePreview } from "../graphs/previews";
import { keptEdges } from "../graphs/undirected_edges";

export function ClassGallery({ result, gnn }: { result: ClassResult; gnn: Gnn }) {
  const name = classLabel(result.target_class, gnn.spec.class_names);
  return (
    <>
      <p class="headline">
        {result.examples.length === 0
          ? (result.reason ?? "No pattern is convincing.")
          : `${plural(result.examples.length, "pattern")} recur in the graphs that the GNN calls ${name}, are rarer elsewhere and move the GNN towards ${name}.`}
      </p>
      {!result.tells_small_graphs_apart && (
        <p class="warning-text">This GNN gives small graphs standing alone nearly the same answer, so the confidence alone says nothing.</p>
      )}
      {result.examples.map((example, number) => (
        <Pattern key={number} example={example} number={number} gnn={gnn} name={name} steps={result.receipt.config.steps} />
      ))}
    </>
  );
}

function Pattern({ example, number, gnn, name, steps }: { example: ClassExample; number: number; gnn: Gnn; name: string; steps: number | undefined }) {
  const shown = example.occurrences.filter((place) => place.shown !== null).slice(0, 2);
  return (
    <Card title={`Pattern ${number + 1}`}>
      <div class="columns">
        <Drawn gnn={gnn.id} graph={example.graph} label={`Pattern ${number + 1} of ${name}`} explained={example.node} height={240} />
        <Table caption={`Evidence for pattern ${number + 1}`} head={["Figure", "Value", "Meaning"]}>
          <tr>
            <th scope="row">in the class</th>
            <td>{percent(example.support.in_class)}</td>
            <td class="wrap">of {example.support.class_count} graphs that the GNN calls {name} contain it</td>
          </tr>
          {example.support.elsewhere !== null && (
            <tr>
              <th scope="row">elsewhere</th>
              <td>{percent(example.support.elsewhere)}</td>
              <td class="wrap">of {example.support.other_count} other graphs contain it</td>
            </tr>
          )}
          <tr>
            <th scope="row">effect</th>
            <td>{signed(example.effect.mean)}</td>
            <td class="wrap">log-odds of {name}, beyond random changes of the same size</td>
          </tr>
          {example.confidence !== null && (
            <tr>
              <th scope="row">in context</th>
              <td>{percent(example.confidence)}</td>
              <td class="wrap">mean probability of {name} in graphs that contain it</td>
            </tr>
          )}
          <tr>
            <th scope="row">alone</th>
            <td>{percent(example.confidence_alone)}</td>
            <td class="wrap">probability of {name} for the pattern standing alone</td>
          </tr>
          <tr>
            <th scope="row">found by</th>
            <td>{example.found_by.join(", ")}</td>
            <td class="wrap">denoiser: a chain of the diffusion model met it; data: it was found in reference graphs</td>
          </tr>
        </Table>
      </div>
      {shown.length > 0 && (
        <>
          <h3>In real graphs</h3>
          <div class="columns">
            {shown.map((place) => (
              <Occurrence key={place.graph} gnn={gnn.id} place={place as Place} />
            ))}
          </div>
        </>
      )}
      {example.chain.length > 1 && <FilmStrip example={example} gnn={gnn.id} steps={steps} />}
    </Card>
  );
}

interface Place {
  graph: number;
  nodes: number[];
  shown: Graph;
}

function Occurrence({ gnn, place }: { gnn: string; place: Place }) {
  const marked = new Set<NodeId>(place.nodes.flatMap((position) => place.shown.nodes[position]?.id ?? []));
  return (
    <figure>
      <Drawn gnn={gnn} graph={place.shown} marked={marked} label={`Reference graph ${place.graph + 1} with the pattern marked`} height={260} />
      <figcaption class="muted">Reference graph {place.graph + 1}, the pattern in colour</figcaption>
    </figure>
  );
}

// The reverse process, from noise to the pattern; all pictures have the layout of the pattern.
function FilmStrip({ example, gnn, steps }: { example: ClassExample; gnn: string; steps: number | undefined }) {
  const last = example.chain[example.chain.length - 1];
  const { preview } = usePreview(gnn, last?.graph ?? example.graph);
  if (preview === undefined || last === undefined) return null;
  // Step 1 reads a graph from pure noise, t = T; step T is the last, t = 1. Old receipts do not tell T.
  const time = (step: number) => (steps === undefined ? `step ${step}` : `t = ${steps + 1 - step}`);
  return (
    <>
      <h3>From noise to the pattern</h3>
      <p class="muted small">
        The diffusion model starts from pure noise{steps !== undefined && ` at t = ${steps}`} and removes it step by step. Each picture is the graph that it
        sees in the noise at that time and that the GNN chose among several. The chain met the pattern at {time(last.step)}
        {steps !== undefined && "; chains end at t = 1"}.
      </p>
      <ol class="film" tabIndex={0} aria-label="From noise to the pattern">
        {example.chain.map((step) => (
          <li key={step.step}>
            <GraphDrawing
              preview={{ ...preview, graph: { ...preview.graph, edges: step.graph.edges } }}
              edges={keptEdges(step.graph)}
              label={`${time(step.step)}: ${plural(step.graph.edges.length, "edge")}`}
              height={120}
              bare
            />
            <span class="muted small">{time(step.step)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function Drawn(props: { gnn: string; graph: Graph; label: string; marked?: ReadonlySet<NodeId>; explained?: NodeId | null; height: number }) {
  const { preview, problem } = usePreview(props.gnn, props.graph);
  if (preview === undefined) return problem ? <ProblemBox problem={problem} /> : <p class="muted">Drawing …</p>;
  return (
    <GraphDrawing
      preview={preview}
      edges={keptEdges(props.graph)}
      label={props.label}
      marked={props.marked}
      explained={props.explained}
      height={props.height}
      bare
    />
  );
}

function signed(value: number): string {
  return `${value > 0 ? "+" : ""}${value.toFixed(2)}`;
}
