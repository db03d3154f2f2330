// All evaluations and comparisons, newest first, of all GNNs or of one.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, mayDo, type Problem } from "../api";
import type { Comparison, EvaluationSummary } from "../evaluations/documents";
import { ComparisonTable, EvaluationTable, namesOf } from "../evaluations/evaluation_table";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox } from "../parts/basics";
import { GnnSelect } from "../parts/gnn_select";
import type { Dataset, Gnn, Page } from "../types";

const REFRESH_SECONDS = 5;

export function EvaluationsPage({ query }: { query: URLSearchParams }) {
  const gnn = query.get("gnn");
  const filter = gnn === null ? "limit=50" : `limit=50&gnn=${encodeURIComponent(gnn)}`;
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const evaluations = useGrowing<EvaluationSummary>(`/v1/evaluations?${filter}`);
  const comparisons = useGrowing<Comparison>(`/v1/comparisons?${filter}`);
  const names = namesOf(gnns.document?.items ?? [], datasets.document?.items ?? []);
  return (
    <>
      <h1>Evaluations</h1>
      <p>An evaluation runs explainers over a whole test set. A comparison says what moved between two evaluations beyond noise.</p>
      <div class="row">
        <GnnSelect any gnns={gnns.document?.items ?? []} value={gnn ?? ""} onChange={(id) => navigate(id === "" ? "/evaluations" : `/evaluations?gnn=${id}`)} />
        {mayDo("explain") && (
          <>
            <PageLink to={gnn === null ? "/evaluate" : `/evaluate?gnn=${gnn}`} class="button">
              Start an evaluation
            </PageLink>
            <PageLink to="/compare" class="button">
              Compare two
            </PageLink>
          </>
        )}
      </div>
      <Card title="Evaluations">
        <Grown growing={evaluations} nothing="No evaluations yet.">
          {(items) => <EvaluationTable evaluations={items} names={names} />}
        </Grown>
      </Card>
      <Card title="Comparisons">
        <Grown growing={comparisons} nothing="No comparisons yet.">
          {(items) => <ComparisonTable comparisons={items} evaluations={evaluations.items ?? []} names={names} />}
        </Grown>
      </Card>
    </>
  );
}

interface Growing<Item> {
  items: Item[] | undefined;
  problem: Problem | undefined;
  more: (() => void) | null;
}

// The first page, which is loaded again while one of its items is under way, and the pages after it.
function useGrowing<Item extends { state: string }>(path: string): Growing<Item> {
  const start = useDocument<Page<Item>>(path, (page) => (page.items.some((one) => one.state === "queued" || one.state === "running") ? REFRESH_SECONDS : null));
  const [later, setLater] = useState<{ path: string; pages: Page<Item>[] }>({ path, pages: [] });
  const [problem, setProblem] = useState<Problem>();
  const pages = start.document === undefined ? [] : [start.document, ...(later.path === path ? later.pages : [])];
  const cursor = pages.at(-1)?.next_cursor ?? null;
  return {
    items: start.document && pages.flatMap((page) => page.items),
    problem: start.problem ?? problem,
    more:
      cursor === null
        ? null
        : () => {
            get<Page<Item>>(`${path}&cursor=${cursor}`).then((page) => setLater({ path, pages: [...pages.slice(1), page] }), setProblem);
          },
  };
}

function Grown<Item>(props: { growing: Growing<Item>; nothing: string; children: (items: Item[]) => ComponentChildren }) {
  const { items, problem, more } = props.growing;
  return (
    <>
      <ProblemBox problem={problem} />
      {items === undefined ? problem === undefined && <Loading /> : items.length === 0 ? <p class="muted">{props.nothing}</p> : props.children(items)}
      {more !== null && (
        <p>
          <button type="button" onClick={more}>
            Show more
          </button>
        </p>
      )}
    </>
  );
}
