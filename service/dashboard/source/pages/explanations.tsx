// All explanations, newest first, page by page.

import { useState } from "preact/hooks";
import { get, type Problem } from "../api";
import { gnnLabel } from "../format";
import { useDocument } from "../loading";
import { Loading, ProblemBox } from "../parts/basics";
import { ExplanationTable } from "../parts/explanation_table";
import type { Dataset, Explanation, Gnn, Page } from "../types";

export function ExplanationsPage({ query }: { query: URLSearchParams }) {
  const filters = new URLSearchParams({ limit: "50" });
  for (const name of ["gnn", "kind"]) {
    const value = query.get(name);
    if (value !== null) filters.set(name, value);
  }
  const start = useDocument<Page<Explanation>>(`/v1/explanations?${filters}`);
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  const datasets = useDocument<Page<Dataset>>("/v1/datasets?limit=200");
  const [more, setMore] = useState<Page<Explanation>[]>([]);
  const [problem, setProblem] = useState<Problem>();
  if (start.document === undefined) return start.problem ? <ProblemBox problem={start.problem} /> : <Loading />;
  const filtered = query.get("gnn");
  const pages = [start.document, ...more];
  const cursor = pages[pages.length - 1]?.next_cursor ?? null;
  const loadMore = () =>
    get<Page<Explanation>>(`/v1/explanations?${filters}&cursor=${cursor}`).then((page) => setMore([...more, page]), setProblem);
  return (
    <>
      <h1>Explanations{filtered !== null && ` of ${gnnLabel(gnns.document?.items.find((one) => one.id === filtered), filtered)}`}</h1>
      <ExplanationTable explanations={pages.flatMap((page) => page.items)} gnns={gnns.document?.items ?? []} datasets={datasets.document?.items ?? []} />
      <ProblemBox problem={problem} />
      {cursor !== null && (
        <p>
          <button type="button" onClick={loadMore}>
            Show more
          </button>
        </p>
      )}
    </>
  );
}
