// One GNN: its layers as a graph, the probe's report, versions, denoisers and explanations.

import { mayDo } from "../api";
import type { EvaluationSummary } from "../evaluations/documents";
import { EvaluationTable, namesOf } from "../evaluations/evaluation_table";
import { plural, timeAgo } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, PageLink, ProblemBox, State, Table, Warnings } from "../parts/basics";
import { ExplanationTable } from "../parts/explanation_table";
import { LayerGraph } from "../graphs/layer_graph";
import type { Dataset, Denoiser, Explanation, Gnn, Page, Report } from "../types";

export function GnnPage({ id }: { id: string }) {
  const { document: gnn, problem } = useDocument<Gnn>(`/v1/gnns/${encodeURIComponent(id)}`, (found) =>
    found.state === "probing" ? 1 : null,
  );
  if (gnn === undefined) return problem ? <ProblemBox problem={problem} /> : <Loading />;
  return (
    <>
      <h1>
        {gnn.name}@{gnn.version} <State state={gnn.state} />
      </h1>
      <p class="muted">
        {gnn.id} · classifies {gnn.spec.task}s into {gnn.spec.class_names?.join(", ") ?? `${gnn.spec.classes} classes`} ·{" "}
        {plural(gnn.spec.features, "feature")} per node · registered {timeAgo(gnn.created_at)}
      </p>
      {gnn.description !== null && <p>{gnn.description}</p>}
      {gnn.state === "ready" && (
        <p>
          <PageLink to={`/ask?gnn=${gnn.id}`} class="button">
            Ask about a graph
          </PageLink>
          {gnn.spec.task === "graph" && mayDo("explain") && (
            <>
              {" "}
              <PageLink to={`/evaluate?gnn=${gnn.id}`} class="button">
                Evaluate on a test set
              </PageLink>
            </>
          )}
        </p>
      )}
      <div class="columns">
        <Card title="Layers">
          <LayerGraph spec={gnn.spec} />
        </Card>
        <Card title="Probe">
          {gnn.state === "probing" && <p role="status">The service checks the GNN now.</p>}
          {gnn.report && <ProbeReport report={gnn.report} />}
        </Card>
      </div>
      <Versions name={gnn.name} current={gnn.id} />
      <Denoisers gnn={gnn.id} />
      <Evaluations gnn={gnn} />
      <Explanations gnn={gnn} />
    </>
  );
}

function ProbeReport({ report }: { report: Report }) {
  return (
    <>
      <p>{report.passed ? "All checks passed." : "The GNN was rejected."}</p>
      <Table caption="Checks" head={["Check", "Result", "Detail"]}>
        {report.checks.map((check) => (
          <tr key={check.name}>
            <th scope="row">{check.name}</th>
            <td>{check.passed ? "passed" : <strong class="bad">failed</strong>}</td>
            <td class="wrap">{check.detail}</td>
          </tr>
        ))}
      </Table>
      <Warnings texts={report.warnings} />
    </>
  );
}

function Versions({ name, current }: { name: string; current: string }) {
  const versions = useDocument<Page<Gnn>>(`/v1/gnns?name=${encodeURIComponent(name)}`);
  const items = versions.document?.items ?? [];
  if (items.length < 2) return null;
  return (
    <Card title="Versions">
      <ul class="inline">
        {items.map((gnn) => (
          <li key={gnn.id}>
            {gnn.id === current ? <strong>{gnn.version}</strong> : <PageLink to={`/gnns/${gnn.id}`}>{gnn.version}</PageLink>}{" "}
            <State state={gnn.state} /> {gnn.aliases.join(", ")}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Denoisers({ gnn }: { gnn: string }) {
  const denoisers = useDocument<Page<Denoiser>>(`/v1/denoisers?gnn=${gnn}`);
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const named = new Map(datasets.document?.items.map((one) => [one.id, `${one.name}@${one.version}`]));
  const items = denoisers.document?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Card title="Denoisers">
      <Table caption="Denoisers" head={["Denoiser", "Objective", "Reference set", "State", "Training", "Created"]}>
        {items.map((denoiser) => (
          <tr key={denoiser.id}>
            <th scope="row">{denoiser.id}</th>
            <td>{denoiser.objective}</td>
            <td>{named.get(denoiser.dataset) ?? denoiser.dataset}</td>
            <td>
              <State state={denoiser.state} />
            </td>
            <td>
              <PageLink to={`/jobs/${denoiser.job.id}`}>curves</PageLink>
            </td>
            <td>{timeAgo(denoiser.created_at)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function Evaluations({ gnn }: { gnn: Gnn }) {
  const evaluations = useDocument<Page<EvaluationSummary>>(`/v1/evaluations?gnn=${gnn.id}&limit=5`);
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const items = evaluations.document?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Card title="Evaluations">
      <EvaluationTable evaluations={items} names={namesOf([gnn], datasets.document?.items ?? [])} />
      <p>
        <PageLink to={`/evaluations?gnn=${gnn.id}`}>All evaluations and comparisons of this GNN</PageLink>
      </p>
    </Card>
  );
}

function Explanations({ gnn }: { gnn: Gnn }) {
  const explanations = useDocument<Page<Explanation>>(`/v1/explanations?gnn=${gnn.id}&limit=20`);
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=50");
  if (explanations.document === undefined) return null;
  return (
    <Card title="Explanations">
      <ExplanationTable explanations={explanations.document.items} gnns={[gnn]} datasets={datasets.document?.items ?? []} />
      {explanations.document.next_cursor !== null && (
        <p>
          <PageLink to={`/explanations?gnn=${gnn.id}`}>All explanations of this GNN</PageLink>
        </p>
      )}
    </Card>
  );
}
