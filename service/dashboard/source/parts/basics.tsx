// Small parts that all pages use.

import type { ComponentChildren } from "preact";
import type { Problem } from "../api";
import { percent } from "../format";
import type { JobState, Prediction, Verdict } from "../types";
import { classLabel } from "../format";

export function PageLink(props: { to: string; children: ComponentChildren; class?: string }) {
  return (
    <a href={props.to} data-page class={props.class}>
      {props.children}
    </a>
  );
}

export function State({ state }: { state: JobState | string }) {
  return <span class={`pill state-${state}`}>{state}</span>;
}

const VERDICT_MARKS: Record<Verdict, string> = { meaningful: "✓", brittle: "!", unjudged: "?" };

export function VerdictPill({ verdict }: { verdict: Verdict }) {
  return (
    <span class={`pill verdict-${verdict}`}>
      <span aria-hidden="true">{VERDICT_MARKS[verdict]} </span>
      {verdict}
    </span>
  );
}

export function ProblemBox({ problem }: { problem: Problem | undefined }) {
  if (problem === undefined) return null;
  return (
    <div class="problem" role="alert">
      <strong>{problem.detail}</strong>
      {problem.places.length > 0 && (
        <ul>
          {problem.places.map((place) => (
            <li key={place}>{place}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

export function Warnings({ texts }: { texts: readonly string[] }) {
  if (texts.length === 0) return null;
  return (
    <ul class="warnings" aria-label="Warnings">
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}

export function Card(props: { title: string; children: ComponentChildren; class?: string }) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      <h2>{props.title}</h2>
      {props.children}
    </section>
  );
}

export function Table(props: { head: string[]; caption: string; children: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
      <table>
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}

export function Loading() {
  return (
    <p class="muted" role="status">
      Loading …
    </p>
  );
}

// Probabilities per class of several predictions, such as before and after.
export function Probabilities(props: {
  rows: { name: string; prediction: Prediction; style: string }[];
  classNames: readonly string[] | null | undefined;
}) {
  const classes = props.rows[0]?.prediction.probabilities.length ?? 0;
  return (
    <table class="probabilities">
      <caption class="hidden">Class probabilities</caption>
      <thead>
        <tr>
          <th scope="col">class</th>
          {props.rows.map((row) => (
            <th key={row.name} scope="col">
              {row.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: classes }, (_, number) => (
          <tr key={number}>
            <th scope="row">{classLabel(number, props.classNames)}</th>
            {props.rows.map((row) => {
              const value = row.prediction.probabilities[number] ?? 0;
              const isPredicted = row.prediction.predicted_class === number;
              return (
                <td key={row.name}>
                  <span class="bar" aria-hidden="true">
                    <span class={`fill ${row.style}`} style={{ width: `${100 * value}%` }} />
                  </span>
                  <span class={isPredicted ? "number strong" : "number"}>{percent(value)}</span>
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
