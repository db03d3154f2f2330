// The event log of a job, live: what it did when, and the figures of its training.

import { useEffect, useState } from "preact/hooks";
import type { JobState, Progress } from "../types";

// Figures that mean something to a person; the others are in the job's document.
export const CURVES = ["loss", "detection_auc", "effect_share", "validity"] as const;

export interface Phase {
  name: string;
  at: string;
  isMoment?: boolean; // an answer that came during the phase before it
}

export interface JobEvents {
  phases: Phase[]; // in the order of their beginnings
  series: Record<string, [number, number][]>; // step and value, by the figure's name
  progress: Progress | null; // the newest
}

const NOTHING: JobEvents = { phases: [], series: {}, progress: null };

// Follows the events; the browser reconnects and continues after the last one.
export function useJobEvents(job: string): JobEvents {
  const [events, setEvents] = useState(NOTHING);
  useEffect(() => {
    setEvents(NOTHING);
    const source = new EventSource(`/v1/jobs/${job}/events`);
    const listen = <Data>(type: string, take: (before: JobEvents, data: Data) => JobEvents) =>
      source.addEventListener(type, (event) => {
        const data = JSON.parse((event as MessageEvent<string>).data) as Data;
        setEvents((before) => take(before, data));
      });
    listen<{ state: JobState; attempt: number; waiting_for: string | null; at: string }>("state", (before, { state, attempt, waiting_for, at }) =>
      begun(before, state === "queued" ? (waiting_for === null ? "queued" : "waiting for a training") : state === "running" ? `running, attempt ${attempt}` : state, at),
    );
    listen<{ stage: string; at: string }>("answer", (before, { stage, at }) => ({ ...before, phases: [...before.phases, { name: `${stage} answer`, at, isMoment: true }] }));
    // Progress of the trainings that the job waits for has no time: it is no phase of this job.
    listen<Progress>("progress", (before, progress) =>
      progress.at === undefined
        ? { ...before, progress }
        : { ...withFigures(begun(before, progress.phase ?? "working", progress.at), progress), progress },
    );
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) source.close();
    });
    return () => source.close();
  }, [job]);
  return events;
}

function begun(before: JobEvents, name: string, at: string): JobEvents {
  if (before.phases.filter((phase) => !phase.isMoment).at(-1)?.name === name) return before;
  return { ...before, phases: [...before.phases, { name, at }] };
}

function withFigures(before: JobEvents, { step, metrics }: Progress): JobEvents {
  if (step === undefined || metrics === undefined) return before;
  const series = { ...before.series };
  for (const name of CURVES) {
    const value = metrics[name];
    if (value !== undefined) series[name] = [...(series[name] ?? []), [step, value]];
  }
  return { ...before, series };
}
