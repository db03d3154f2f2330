// The progress of a job as it happens: phases, curves of the training's figures, time left.

import { duration } from "../format";
import type { Job, Progress } from "../types";
import { PageLink, State, Table } from "./basics";
import { CURVES, type JobEvents, type Phase, useJobEvents } from "./job_events";
import { LinePlot, type Series } from "./plots";

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
      {running.map((training) => (
        <TrainingCurves key={training.job} job={training.job} />
      ))}
    </>
  );
}

export function Bar({ progress }: { progress: Progress }) {
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

// When each phase began, and how long it took.
function Phases({ job, phases }: { job: Job; phases: readonly Phase[] }) {
  if (phases.length === 0) return null;
  return (
    <Table caption="Phases" head={["Phase", "Began", "Took"]}>
      {phases.map((phase, number) => {
        return (
          <tr key={number}>
            <th scope="row">{phase.name}</th>
            <td>{new Date(phase.at).toLocaleTimeString()}</td>
            <td>{took(job, phase, phases.slice(number + 1))}</td>
          </tr>
        );
      })}
    </Table>
  );
}

// An answer and the end of the job are moments, which take no time.
function took(job: Job, phase: Phase, later: readonly Phase[]): string {
  if (phase.isMoment) return "";
  const next = later.find((one) => !one.isMoment);
  if (next !== undefined) return duration((Date.parse(next.at) - Date.parse(phase.at)) / 1000);
  return job.finished_at === null ? "…" : "";
}

function Curves({ series }: { series: JobEvents["series"] }) {
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

// The curves of a training that another job waits for.
function TrainingCurves({ job }: { job: string }) {
  return <Curves series={useJobEvents(job).series} />;
}

// Phases and curves of one job, on its own page.
export function JobHistory({ job }: { job: Job }) {
  const { phases, series } = useJobEvents(job.id);
  return (
    <>
      <Curves series={series} />
      <Phases job={job} phases={phases} />
    </>
  );
}
