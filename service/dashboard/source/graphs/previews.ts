// Positions to draw a graph at; the service computes them.

import { useEffect, useState } from "preact/hooks";
import { post, type Problem } from "../api";
import type { Preview } from "../types";

// `graph` is what can be posted as a graph; nothing is loaded for null.
export function usePreview(gnn: string, graph: unknown): { preview: Preview | undefined; problem: Problem | undefined } {
  const [preview, setPreview] = useState<Preview>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    if (graph === null) return;
    const abort = new AbortController();
    setProblem(undefined);
    post<Preview>(`/v1/gnns/${gnn}/graph-previews`, { graph }, {}, abort.signal).then(setPreview, (error: Problem) => {
      if (!abort.signal.aborted) setProblem(error);
    });
    return () => abort.abort();
  }, [gnn, graph]);
  return { preview, problem };
}
