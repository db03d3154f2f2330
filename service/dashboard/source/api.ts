// Requests to the API. Errors are the API's problem documents.

import type { NodeId, Page, Prediction, Scope, Session } from "./types";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly places: string[] = [],
  ) {
    super(detail);
  }
}

const CSRF_HEADER = "X-CSRF-Token";
let session: Session | null = null; // its cookie is not for scripts

export function setSession(found: Session | null): void {
  session = found;
}

// Pages leave out buttons that the service would refuse.
export function mayDo(scope: Scope): boolean {
  return session === null || session.scopes.includes(scope);
}

async function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (session?.csrf_token && method !== "GET") headers.set(CSRF_HEADER, session.csrf_token);
  let response: Response;
  try {
    response = await fetch(path, { ...init, method, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "The service cannot be reached.");
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const document = (await response.json()) as {
      detail: string;
      errors?: { detail: string; pointer?: string; parameter?: string; header?: string }[];
    };
    const places = (document.errors ?? []).map(
      (place) => `${place.pointer ?? place.parameter ?? place.header ?? ""} ${place.detail}`,
    );
    return new Problem(response.status, document.detail, places);
  } catch {
    return new Problem(response.status, `The service answered with status ${response.status}.`);
  }
}

export async function get<Document>(path: string, signal?: AbortSignal): Promise<Document> {
  return (await (await send("GET", path, { signal })).json()) as Document;
}

export async function post<Document>(
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Document> {
  const content: RequestInit =
    body === undefined
      ? { headers }
      : body instanceof FormData
        ? { body, headers }
        : { body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers } };
  return (await (await send("POST", path, { ...content, signal })).json()) as Document;
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path);
}

export async function first<Item>(path: string): Promise<Item[]> {
  return (await get<Page<Item>>(path)).items;
}

// Predictions are short jobs: the request waits for the answer.
export async function predict(
  gnn: string,
  graph: unknown,
  signal?: AbortSignal,
): Promise<Prediction> {
  const document = await post<{
    predictions: Prediction[] | null;
    job: { state: string; error: { message: string } | null };
  }>(`/v1/gnns/${gnn}/predictions`, { graph }, {}, signal);
  const prediction = document.predictions?.[0];
  if (prediction === undefined) {
    throw new Problem(0, document.job.error?.message ?? "The prediction has not ended in time.");
  }
  return prediction;
}

// The GNN's answer for an explained graph with toggled pairs; a running worker answers at once.
export async function whatIf(
  explanation: string,
  graph: number,
  toggles: readonly { source: NodeId; target: NodeId }[],
  signal?: AbortSignal,
  gnn?: string, // another one than that of the explanation
): Promise<Prediction> {
  const body = { graph, toggles: toggles.map(({ source, target }) => [source, target]), gnn };
  return (await post<{ prediction: Prediction }>(`/v1/explanations/${explanation}/what-if`, body, {}, signal)).prediction;
}
