// The real graph that the GNN gives the new class and that is nearest to the explained one.

import { useMemo } from "preact/hooks";
import { percent, plural, predictedLabel, probability } from "../format";
import { useDocument } from "../loading";
import type { Dataset, Gnn, Nearest } from "../types";
import { Card, ProblemBox } from "../parts/basics";
import { GraphDrawing } from "../graphs/graph_drawing";
import { usePreview } from "../graphs/previews";
import { keptEdges } from "../graphs/undirected_edges";

interface Props {
  explanation: string;
  gnn: Gnn;
  dataset: Dataset | undefined;
  graph: number;
  targetClass: number;
}

export function NearestGraph(props: Props) {
  const found = useDocument<Nearest>(
    `/v1/explanations/${props.explanation}/nearest?graph=${props.graph}&target_class=${props.targetClass}`,
  );
  const near = found.document?.nearest ?? null;
  const posted = useMemo(() => (near === null ? null : near.smiles === null ? near.graph : { smiles: near.smiles }), [near]);
  const { preview } = usePreview(props.gnn.id, posted);
  const drawn = useMemo(() => preview && keptEdges(preview.graph), [preview]);
  const name = props.gnn.spec.class_names?.[props.targetClass] ?? `class ${props.targetClass}`;
  return (
    <Card title={`Nearest real graph that the GNN calls ${name}`} class="nearest">
      <ProblemBox problem={found.problem} />
      {found.document === undefined && found.problem === undefined && <p class="muted">Looking through the reference set …</p>}
      {found.document && near === null && <p>The GNN calls no graph of the reference set {name}.</p>}
      {preview && drawn && (
        <GraphDrawing preview={preview} edges={drawn} explained={near?.node} label={`The nearest real graph: ${plural(preview.graph.nodes.length, "node")}`} height={300} bare />
      )}
      {near !== null && found.document !== undefined && <p class="small">{sentence(found.document, near, props.dataset)}</p>}
    </Card>
  );
}

function sentence(found: Nearest, near: NonNullable<Nearest["nearest"]>, dataset: Dataset | undefined): string {
  const what = near.node === null ? plural(found.compared_count, "real graph") : `neighbourhoods of ${plural(found.compared_count, "real node")}`;
  const which = near.position === null ? "" : `Graph ${near.position + 1}${dataset ? ` of ${dataset.name}` : ""}. `;
  const compared = found.compares_features ? "" : " Only edges are compared: the nodes have too many different features.";
  return (
    `${which}Of ${what} that the GNN calls ${predictedLabel(near.prediction)}, it is nearest to the original: they share ` +
    `${percent(1 - (found.distance ?? 0))} of their node neighbourhoods (a node and those up to ${found.hops} steps away). ` +
    `The GNN is ${percent(probability(near.prediction))} sure of it.${compared}`
  );
}
