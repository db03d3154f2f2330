// Dry runs: what a request would cost, a moment after the last change of a form.

import { useEffect, useState } from "preact/hooks";
import { post, type Problem } from "./api";

export interface Estimated<Estimate> {
  estimate: Estimate | undefined;
  problem: Problem | undefined;
}

export function useEstimate<Estimate>(path: string, body: unknown): Estimated<Estimate> {
  const [estimate, setEstimate] = useState<Estimate>();
  const [problem, setProblem] = useState<Problem>();
  const text = JSON.stringify(body);
  useEffect(() => {
    if (body === undefined) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      post<Estimate>(`${path}?dry_run=true`, body, {}, abort.signal).then(
        (found) => {
          setEstimate(found);
          setProblem(undefined);
        },
        (error: Problem) => {
          if (!abort.signal.aborted) setProblem(error);
        },
      );
    }, 300);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [path, text]);
  return { estimate, problem };
}
