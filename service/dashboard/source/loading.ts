// Loads documents for pages and repeats requests while something is under way.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Problem } from "./api";

export interface Loaded<Document> {
  document: Document | undefined;
  problem: Problem | undefined;
  reload: () => void;
}

// Loads `path` (nothing if null), and again every `seconds` as long as `seconds` is given.
export function useDocument<Document>(
  path: string | null,
  seconds?: (document: Document) => number | null,
): Loaded<Document> {
  const [document, setDocument] = useState<Document>();
  const [problem, setProblem] = useState<Problem>();
  const [round, setRound] = useState(0);
  const interval = useRef(seconds);
  interval.current = seconds;
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    let timer: number | undefined;
    const load = () =>
      get<Document>(path, abort.signal).then(
        (loaded) => {
          setDocument(loaded);
          setProblem(undefined);
          const next = interval.current?.(loaded) ?? null;
          if (next !== null) timer = window.setTimeout(load, 1000 * next * (window.document.hidden ? 5 : 1));
        },
        (error: Problem) => {
          if (!abort.signal.aborted) setProblem(error);
        },
      );
    void load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, round]);
  useEffect(() => setDocument(undefined), [path]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  return { document, problem, reload };
}
