// Makes a comparison of two evaluations of the same test set.

import { useState } from "preact/hooks";
import { mayDo, post, type Problem } from "../api";
import type { Comparison, EvaluationSummary } from "../evaluations/documents";
import { type Names, namesOf, shortId } from "../evaluations/evaluation_table";
import { gnnLabel, plural, timeAgo } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox } from "../parts/basics";
import type { Dataset, Gnn, Page } from "../types";

export function ComparePage({ query }: { query: URLSearchParams }) {
  if (!mayDo("explain")) return <p role="alert">This key may look at comparisons but not make one. That needs the scope explain.</p>;
  const evaluations = useDocument<Page<EvaluationSummary>>("/v1/evaluations?limit=200&state=succeeded");
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const problem = evaluations.problem ?? gnns.problem ?? datasets.problem;
  if (problem !== undefined) return <ProblemBox problem={problem} />;
  if (evaluations.document === undefined || gnns.document === undefined || datasets.document === undefined) return <Loading />;
  return (
    <>
      <h1>Compare two evaluations</h1>
      {evaluations.document.items.length === 0 ? (
        <p>
          No evaluation has succeeded yet. <PageLink to="/evaluate">Start one</PageLink> first.
        </p>
      ) : (
        <CompareForm evaluations={evaluations.document.items} names={namesOf(gnns.document.items, datasets.document.items)} chosen={query.get("baseline")} />
      )}
    </>
  );
}

function CompareForm(props: { evaluations: EvaluationSummary[]; names: Names; chosen: string | null }) {
  const { evaluations, names } = props;
  const [baselineId, setBaseline] = useState(props.chosen ?? "");
  const baseline = evaluations.find((one) => one.id === baselineId) ?? evaluations[0];
  const partners = evaluations.filter((one) => one.test_dataset === baseline?.test_dataset);
  const [candidateId, setCandidate] = useState("");
  const candidate = partners.find((one) => one.id === candidateId) ?? partners.find((one) => one !== baseline && one.gnn !== baseline?.gnn) ?? partners.find((one) => one !== baseline) ?? baseline;
  const [explainer, setExplainer] = useState("");
  const [otherExplainer, setOther] = useState("");
  const [noise, setNoise] = useState<"retraining" | "instances">("retraining");
  const [retrained, setRetrained] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  if (baseline === undefined || candidate === undefined) return null;
  const mine = pick(baseline.explainers, explainer);
  const theirs = pick(candidate.explainers, otherExplainer, candidate === baseline ? baseline.explainers.find((name) => name !== mine) : mine);
  const sameGnn = baseline.gnn === candidate.gnn;
  const trainings = partners.filter((one) => one.gnn !== baseline.gnn && one.id !== candidate.id && one.explainers.includes(mine));
  const named = sameGnn || noise === "instances" ? [] : retrained.filter((id) => trainings.some((one) => one.id === id));
  const title = (one: EvaluationSummary) =>
    `${gnnLabel(names.gnns.get(one.gnn), one.gnn)} on ${names.sets.get(one.test_dataset) ?? one.test_dataset}, ${plural(one.instance_count, "instance")}, ${timeAgo(one.created_at)} (${shortId(one.id)})`;
  const compare = () => {
    setBusy(true);
    setProblem(undefined);
    const body = {
      baseline: baseline.id,
      candidate: candidate.id,
      explainer: mine,
      candidate_explainer: theirs,
      ...(sameGnn ? {} : { noise, retrained: named }),
    };
    post<Comparison>("/v1/comparisons", body).then(
      (comparison) => navigate(`/comparisons/${comparison.id}`),
      (error: Problem) => {
        setProblem(error);
        setBusy(false);
      },
    );
  };
  return (
    <Card title="What to compare">
      <div class="columns">
        <Side name="Baseline" evaluations={evaluations} chosen={baseline} title={title} explainer={mine} onEvaluation={setBaseline} onExplainer={setExplainer} />
        <Side name="Candidate" evaluations={partners} chosen={candidate} title={title} explainer={theirs} onEvaluation={setCandidate} onExplainer={setOther} />
      </div>
      {sameGnn ? (
        <p class="muted">Both are of one GNN, so nothing was retrained: the noise allowed for is which graphs were drawn.</p>
      ) : (
        <>
          <fieldset>
            <legend>Noise to allow for</legend>
            <label>
              <input type="radio" name="noise" checked={noise === "retraining"} onChange={() => setNoise("retraining")} /> of retraining: another training of the same GNN does not count
              as moved
            </label>
            <label>
              <input type="radio" name="noise" checked={noise === "instances"} onChange={() => setNoise("instances")} /> of the instances only: another training may count as moved
            </label>
          </fieldset>
          {noise === "retraining" && (
            <fieldset class="choices">
              <legend>Evaluations of other trainings of the baseline's GNN, at least two; four or more find smaller changes</legend>
              {trainings.length === 0 && <p class="muted">There is none with this test set and explainer. Register other trainings of the same GNN and evaluate each.</p>}
              {trainings.map((one) => (
                <label key={one.id}>
                  <input
                    type="checkbox"
                    checked={retrained.includes(one.id)}
                    onChange={() => setRetrained(retrained.includes(one.id) ? retrained.filter((id) => id !== one.id) : [...retrained, one.id])}
                  />{" "}
                  {title(one)}
                </label>
              ))}
            </fieldset>
          )}
        </>
      )}
      <ProblemBox problem={problem} />
      <p>
        <button type="button" class="primary" disabled={busy} onClick={compare}>
          Compare
        </button>
      </p>
    </Card>
  );
}

function pick(names: readonly string[], chosen: string, wanted?: string): string {
  if (names.includes(chosen)) return chosen;
  return wanted !== undefined && names.includes(wanted) ? wanted : (names[0] ?? "");
}

function Side(props: {
  name: "Baseline" | "Candidate";
  evaluations: readonly EvaluationSummary[];
  chosen: EvaluationSummary;
  title: (one: EvaluationSummary) => string;
  explainer: string;
  onEvaluation: (id: string) => void;
  onExplainer: (name: string) => void;
}) {
  return (
    <div class="stack">
      <label>
        {props.name}
        <select value={props.chosen.id} onChange={(event) => props.onEvaluation(event.currentTarget.value)}>
          {props.evaluations.map((one) => (
            <option key={one.id} value={one.id}>
              {props.title(one)}
            </option>
          ))}
        </select>
      </label>
      <label>
        Explainer of the {props.name.toLowerCase()}
        <select value={props.explainer} onChange={(event) => props.onExplainer(event.currentTarget.value)}>
          {props.chosen.explainers.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
