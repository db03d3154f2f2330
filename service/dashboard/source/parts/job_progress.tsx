// The progress of a job as it happens: phases, curves of the training's figures, time left.

import { useEffect, useState } from "preact/hooks";
import { duration } from "../format";
import type { Job, Progress } from "../types";
import { PageLink, State } from "./basics";
import { LinePlot, type Series } from "./plots";

// Curves that mean something to a person; the other figures are in the job's document.
const CURVES = ["loss", "detection_auc", "effect_share", "validity"] as const;

export function JobProgress({ job }: { job: Job }) {
  const running = job.trainings.filter((training) => training.state === "running");
  return (
    <>
      {job.finished_at === null && job.seconds_left !== null && <p role="status">About {duration(job.seconds_left)} left.</p>}
      {job.trainings.map((training) => (
        <div key={training.job} class="phase">
          <PageLink to={`/jobs/${training.job}`}>{training.kind === "witnesses" ? "Witnesses" : "Denoiser"}</PageLink>{" "}
          <State state={training.state} /> {training.seconds_left !== null && <span class="muted">at most {duration(training.seconds_left)}</span>}
          {training.progress && <Bar progress={training.progress} />}
        </div>
      ))}
      {job.trainings.length === 0 && job.progress && job.finished_at === null && <Bar progress={job.progress} />}
      {running.length > 0 ? running.map((training) => <Curves key={training.job} job={training.job} />) : <Curves job={job.id} />}
    </>
  );
}

function Bar({ progress }: { progress: Progress }) {
  if (!progress.total) return <span class="muted"> {progress.phase}</span>;
  return (
    <span>
      <progress max={progress.total} value={progress.step ?? 0} aria-label={progress.phase ?? "progress"} />{" "}
      <span class="muted">
        {progress.phase} {progress.step ?? 0} of {progress.total}
      </span>
    </span>
  );
}

// Follows the job's events; the browser reconnects and continues after the last one.
function Curves({ job }: { job: string }) {
  const [series, setSeries] = useState<Record<string, [number, number][]>>({});
  useEffect(() => {
    setSeries({});
    const source = new EventSource(`/v1/jobs/${job}/events`);
    source.addEventListener("progress", (event) => {
      const progress = JSON.parse((event as MessageEvent<string>).data) as Progress;
      const step = progress.step;
      if (step === undefined || progress.metrics === undefined) return;
      const metrics = progress.metrics;
      setSeries((before) => {
        const next = { ...before };
        for (const name of CURVES) {
          const value = metrics[name];
          if (value !== undefined) next[name] = [...(next[name] ?? []), [step, value]];
        }
        return next;
      });
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) source.close();
    });
    return () => source.close();
  }, [job]);
  const shown: Series[] = CURVES.map((name) => ({ name: name.replace("_", " "), points: series[name] ?? [] }));
  if (shown.every((one) => one.points.length < 2)) return null;
  return (
    <div class="plots">
      {shown.map((one) => (
        <LinePlot key={one.name} series={one} label={`${one.name} over training steps`} />
      ))}
    </div>
  );
}
