// Starts an evaluation: GNN, reference set, test set, explainers, metrics, and what it costs.

import { useEffect, useState } from "preact/hooks";
import { mayDo, post, type Problem } from "../api";
import { useEstimate } from "../estimates";
import type { Evaluation, EvaluationEstimate } from "../evaluations/documents";
import { METRICS } from "../evaluations/figure_texts";
import { duration, plural } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox } from "../parts/basics";
import { GnnSelect } from "../parts/gnn_select";
import { fittingSets } from "../reference_sets";
import type { Dataset, Gnn, Page } from "../types";

const DEFAULT_METRICS: readonly string[] = ["transfer", "mmd"];
const EXPLAINERS: readonly { title: string; names: readonly string[] }[] = [
  { title: "Diffusion; trains a denoiser", names: ["d4", "d4-paper"] },
  { title: "Search", names: ["search", "greedy", "random"] },
  { title: "By gradients or trained masks", names: ["saliency", "gradcam", "integrated-gradients", "gnnexplainer", "pgexplainer", "pgm-explainer", "cxplain", "cf-gnnexplainer"] },
];

export function EvaluatePage({ query }: { query: URLSearchParams }) {
  if (!mayDo("explain")) return <p role="alert">This key may look at evaluations but not start one. That needs the scope explain.</p>;
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const problem = gnns.problem ?? datasets.problem;
  if (problem !== undefined) return <ProblemBox problem={problem} />;
  if (gnns.document === undefined || datasets.document === undefined) return <Loading />;
  const fitting = gnns.document.items.filter(canBeEvaluated);
  return (
    <>
      <h1>Start an evaluation</h1>
      {fitting.length === 0 ? (
        <p>
          No GNN can be evaluated. It needs a GNN that classifies graphs and has weights here. <PageLink to="/gnns">Register one</PageLink> first.
        </p>
      ) : (
        <EvaluateForm gnns={fitting} datasets={datasets.document.items} chosen={query.get("gnn")} />
      )}
    </>
  );
}

function canBeEvaluated(gnn: Gnn): boolean {
  return gnn.state === "ready" && gnn.spec.task === "graph" && gnn.spec.layers?.[0]?.type !== "black_box";
}

function EvaluateForm(props: { gnns: Gnn[]; datasets: Dataset[]; chosen: string | null }) {
  const [gnnId, setGnnId] = useState(props.chosen ?? "");
  const gnn = props.gnns.find((one) => one.id === gnnId) ?? props.gnns[0];
  const fitting = fittingSets(gnn, props.datasets);
  const [datasetId, setDatasetId] = useState("");
  const dataset = fitting.find((one) => one.id === datasetId) ?? fitting[0];
  const [test, setTest] = useState(""); // a data set; the held-out part if empty
  const [share, setShare] = useState("20");
  const [explainers, setExplainers] = useState<readonly string[]>(["search", "greedy"]);
  const [metrics, setMetrics] = useState(DEFAULT_METRICS);
  const [count, setCount] = useState("");
  const [seed, setSeed] = useState("0");
  if (gnn === undefined || dataset === undefined) {
    return <p role="alert">No reference set has {gnn?.spec.features} features per node, as this GNN reads.</p>;
  }
  const tested = fitting.some((one) => one.id === test) ? test : "";
  const body =
    explainers.length === 0
      ? undefined
      : {
          gnn: gnn.id,
          dataset: dataset.id,
          test: tested === "" ? { held_out: Number(share) / 100 } : tested,
          explainers: EXPLAINERS.flatMap((group) => group.names).filter((name) => explainers.includes(name)),
          metrics: METRICS.map((metric) => metric.name).filter((name) => metrics.includes(name)),
          seed: Number(seed),
          ...(count === "" ? {} : { count: Number(count) }),
        };
  return (
    <div class="columns">
      <Card title="What to evaluate">
        <div class="stack">
          <GnnSelect gnns={props.gnns} value={gnn.id} onChange={setGnnId} />
          <label>
            Reference set: MMD, typicality and trainings are about it
            <select value={dataset.id} onChange={(event) => setDatasetId(event.currentTarget.value)}>
              {fitting.map((one) => (
                <SetOption key={one.id} dataset={one} />
              ))}
            </select>
          </label>
          <label>
            Test set
            <select value={tested} onChange={(event) => setTest(event.currentTarget.value)}>
              <option value="">a held-out part of the reference set</option>
              {fitting.map((one) => (
                <SetOption key={one.id} dataset={one} />
              ))}
            </select>
          </label>
          {tested === "" && (
            <label>
              Share of the reference set that is held out, in percent
              <input type="number" min="1" max="50" value={share} onInput={(event) => setShare(event.currentTarget.value)} />
            </label>
          )}
          {tested === dataset.id && <p class="warning-text">The test set is the reference set: witnesses and denoiser learn from the same graphs.</p>}
          <label>
            Instances, drawn by the seed
            <input type="number" min="1" value={count} placeholder="all" onInput={(event) => setCount(event.currentTarget.value)} />
          </label>
          <label>
            Seed
            <input type="number" min="0" value={seed} onInput={(event) => setSeed(event.currentTarget.value)} />
          </label>
        </div>
      </Card>
      <Card title="Explainers">
        {EXPLAINERS.map((group) => (
          <Choices key={group.title} title={group.title} options={group.names.map((name) => ({ name, text: name }))} chosen={explainers} onChange={setExplainers} />
        ))}
        <Choices
          title="Metrics besides validity, curves, edits and work"
          options={METRICS.map((metric) => ({ name: metric.name, text: `${metric.title}: ${metric.cost}` }))}
          chosen={metrics}
          onChange={setMetrics}
        />
      </Card>
      <Card title="Estimate">{body === undefined ? <p role="status">Choose at least one explainer.</p> : <Submission body={body} />}</Card>
    </div>
  );
}

function SetOption({ dataset }: { dataset: Dataset }) {
  return (
    <option value={dataset.id}>
      {dataset.name}@{dataset.version} ({plural(dataset.graph_count, "graph")})
    </option>
  );
}

function Choices(props: {
  title: string;
  options: readonly { name: string; text: string }[];
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
}) {
  const toggle = (name: string) => props.onChange(props.chosen.includes(name) ? props.chosen.filter((one) => one !== name) : [...props.chosen, name]);
  return (
    <fieldset class="choices">
      <legend>{props.title}</legend>
      {props.options.map(({ name, text }) => (
        <label key={name}>
          <input type="checkbox" checked={props.chosen.includes(name)} onChange={() => toggle(name)} /> {text}
        </label>
      ))}
    </fieldset>
  );
}

function Submission({ body }: { body: object }) {
  const { estimate, problem } = useEstimate<EvaluationEstimate>("/v1/evaluations", body);
  const [refusal, setRefusal] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const text = JSON.stringify(body);
  useEffect(() => setRefusal(undefined), [text]);
  const start = () => {
    setBusy(true);
    post<Evaluation>("/v1/evaluations", body).then(
      (evaluation) => navigate(`/evaluations/${evaluation.id}`),
      (error: Problem) => {
        setRefusal(error);
        setBusy(false);
      },
    );
  };
  return (
    <>
      <ProblemBox problem={refusal ?? problem} />
      {estimate && problem === undefined && <EstimateText estimate={estimate} />}
      <button type="button" class="primary" disabled={busy || estimate === undefined || problem !== undefined} onClick={start}>
        Start
      </button>
    </>
  );
}

function EstimateText({ estimate }: { estimate: EvaluationEstimate }) {
  return (
    <div role="status">
      <p>
        About <strong>{duration(estimate.total_seconds)}</strong> of work on one CPU core for {plural(estimate.instances, "instance")} in {plural(estimate.shards, "shard")}; several workers
        share the shards. This is an order of magnitude.
      </p>
      <ul>
        {estimate.explainers.map((one) => (
          <li key={one.explainer}>
            {one.explainer}: {duration(one.seconds)}
          </li>
        ))}
        {Object.entries(estimate.metric_seconds).map(([metric, seconds]) => (
          <li key={metric}>
            of which {metric}: {duration(seconds)}
          </li>
        ))}
        {estimate.trains_witnesses && <li>training of witnesses first: at most {duration(estimate.witness_seconds)}</li>}
        {estimate.trains_denoiser && <li>training of a denoiser first: at most {duration(estimate.denoiser_seconds)}</li>}
      </ul>
    </div>
  );
}
