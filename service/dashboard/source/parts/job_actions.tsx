// Buttons that cancel or retry a job.

import { useState } from "preact/hooks";
import { mayDo, post, type Problem } from "../api";
import type { Job } from "../types";
import { ProblemBox } from "./basics";

export function JobActions(props: { job: Job; onCanceled: () => void; onRetried: (next: Job) => void }) {
  const { cancel, retry } = props.job.links;
  const [problem, setProblem] = useState<Problem>();
  const send = (path: string, onDone: (job: Job) => void) => () => {
    setProblem(undefined);
    post<Job>(path).then(onDone, setProblem);
  };
  if ((cancel === null && retry === null) || !mayDo("explain")) return null;
  return (
    <>
      <ProblemBox problem={problem} />
      <p class="actions">
        {cancel !== null && (
          <button type="button" onClick={send(cancel, props.onCanceled)}>
            Cancel
          </button>
        )}
        {retry !== null && (
          <button type="button" onClick={send(retry, props.onRetried)}>
            Retry
          </button>
        )}
      </p>
    </>
  );
}
