// Global counterfactuals: the graphs, what each covers, the edits that lead there, and the curves.

import { useState } from "preact/hooks";
import { classLabel, percent, plural, predictedLabel, probability } from "../format";
import { Card, ProblemBox, Table } from "../parts/basics";
import { LinePlot } from "../parts/plots";
import { GraphDrawing } from "../graphs/graph_drawing";
import { usePreview } from "../graphs/previews";
import { keptEdges } from "../graphs/undirected_edges";
import type { GlobalCounterfactual, GlobalResult, Gnn } from "../types";
import { pathWords, ruleWords, typeNames } from "./edit_words";
import { PathCheck } from "./path_check";

const ROWS = 10; // covered graphs that are listed at first

interface Props {
  result: GlobalResult;
  gnn: Gnn;
  dataset: string;
}

export function GlobalView({ result, gnn, dataset }: Props) {
  const source = classLabel(result.source_class, gnn.spec.class_names);
  return (
    <>
      <p class="headline">{sentence(result, source)}</p>
      {result.counterfactuals.length > 0 && (
        <p class="muted">
          Coverage is of the graphs of this reference set that the GNN calls {source}, for which these graphs were searched; it says nothing of other
          graphs. A graph counts as covered if the edits listed below turn it into one of them and are at most θ = {result.theta} of the nodes and edges
          of both.
        </p>
      )}
      {result.counterfactuals.map((one, number) => (
        <Counterfactual key={number} one={one} number={number} source={source} result={result} gnn={gnn} dataset={dataset} />
      ))}
      {result.counterfactuals.length > 0 && (
        <>
          <Curves result={result} />
          <Rules result={result} />
        </>
      )}
    </>
  );
}

function sentence(result: GlobalResult, source: string): string {
  if (result.counterfactuals.length === 0) return `There is no answer: ${result.reason ?? "no reason given"}.`;
  const covered = `${result.covered_count.toLocaleString("en")} of the ${plural(result.source_count, "graph")} that the GNN calls ${source} (${percent(result.coverage ?? 0)})`;
  const edits = result.mean_cost === null ? "" : `, by ${result.mean_cost.toFixed(1)} edits on average`;
  return `${covered} are near to one of ${plural(result.counterfactuals.length, "graph")} of another class${edits}.`;
}

function Counterfactual({ one, number, source, result, gnn, dataset }: Props & { one: GlobalCounterfactual; number: number; source: string }) {
  const [shown, setShown] = useState(ROWS);
  const [chosen, setChosen] = useState<number>();
  const { preview, problem } = usePreview(gnn.id, one.graph);
  const name = typeNames(result);
  const checked = one.covered.find((covered) => covered.graph === chosen);
  return (
    <Card title={`Graph ${number + 1}`}>
      <div class="columns">
        {preview ? (
          <GraphDrawing preview={preview} edges={keptEdges(one.graph)} label={`Global counterfactual ${number + 1}: ${plural(one.graph.nodes.length, "node")}`} height={260} bare />
        ) : problem ? (
          <ProblemBox problem={problem} />
        ) : (
          <p class="muted">Drawing …</p>
        )}
        <Table caption={`What graph ${number + 1} covers`} head={["Figure", "Value", "Meaning"]}>
          <tr>
            <th scope="row">class</th>
            <td>{predictedLabel(one.prediction)}</td>
            <td class="wrap">the GNN gives it this class with probability {probability(one.prediction).toFixed(2)}</td>
          </tr>
          <tr>
            <th scope="row">near</th>
            <td>{percent(one.covered_share)}</td>
            <td class="wrap">of the graphs that the GNN calls {source} are within θ of it</td>
          </tr>
          <tr>
            <th scope="row">adds</th>
            <td>{percent(one.added_share)}</td>
            <td class="wrap">are within θ of it and of no graph before it</td>
          </tr>
        </Table>
      </div>
      <details>
        <summary>{plural(one.covered.length, "covered graph")} and the edits of each</summary>
        <Table caption={`Graphs covered by graph ${number + 1}`} head={["Reference graph", "Edits", "Distance", "Which edits", ""]}>
          {one.covered.slice(0, shown).map((covered) => (
            <tr key={covered.graph}>
              <th scope="row">{covered.graph}</th>
              <td>{covered.cost}</td>
              <td>{covered.distance.toFixed(3)}</td>
              <td class="wrap">{covered.path === null ? (covered.nearest ? "too many to list" : "listed at the graph that is nearer") : pathWords(covered.path, name)}</td>
              <td>
                {covered.path !== null && (
                  <button type="button" onClick={() => setChosen(covered.graph)} aria-label={`Draw the edits of reference graph ${covered.graph}`}>
                    Draw
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
        {shown < one.covered.length && (
          <button type="button" onClick={() => setShown(shown + 100)}>
            Show more
          </button>
        )}
        {checked?.path && <PathCheck key={checked.graph} covered={checked} path={checked.path} result={result} gnn={gnn.id} dataset={dataset} />}
      </details>
    </Card>
  );
}

function Curves({ result }: { result: GlobalResult }) {
  const asked = result.curves.find((curve) => curve.theta === result.theta);
  const points = (asked?.coverage ?? []).map((share, place): [number, number] => [place + 1, 100 * share]);
  return (
    <Card title="Coverage and cost">
      <div class="columns">
        <LinePlot
          series={{ name: `covered by the first 1, 2, … graphs, in per cent`, points }}
          range={[0, Math.max(...points.map(([, share]) => share), 1)]}
          label={`${percent(asked?.coverage[0] ?? 0)} by the first graph, ${percent(result.coverage ?? 0)} by all`}
        />
        <Table caption="Coverage by theta" head={["θ", "Covered", "Mean edits"]}>
          {result.curves.map((curve) => {
            const cost = curve.mean_cost[curve.mean_cost.length - 1] ?? null;
            return (
              <tr key={curve.theta}>
                <th scope="row">{curve.theta}</th>
                <td>{percent(curve.coverage[curve.coverage.length - 1] ?? 0)}</td>
                <td>{cost === null ? "none covered" : cost.toFixed(1)}</td>
              </tr>
            );
          })}
        </Table>
      </div>
      <p class="muted small">The graphs were chosen for θ = {result.theta}; other graphs may cover more at another θ.</p>
    </Card>
  );
}

function Rules({ result }: { result: GlobalResult }) {
  const name = typeNames(result);
  return (
    <Card title="Edits that recur">
      <Table caption="Recurring edits" head={["Edit", "Graphs", "Share of the covered graphs"]}>
        {result.rules.map((rule) => (
          <tr key={`${rule.kind} ${rule.types.join()}`}>
            <th scope="row">{ruleWords(rule, name)}</th>
            <td>{rule.path_count}</td>
            <td>{percent(rule.share)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
