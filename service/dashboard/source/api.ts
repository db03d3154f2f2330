// Requests to the API. Errors are the API's problem documents.

import type { Page, Prediction } from "./types";

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
let csrfToken: string | null = null; // of the session; the session's cookie is not for scripts

export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

async function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (csrfToken !== null && method !== "GET") headers.set(CSRF_HEADER, csrfToken);
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
  node: number | string | null,
  signal?: AbortSignal,
): Promise<Prediction> {
  type Row = Prediction | { nodes: Prediction[] };
  const body = node === null ? { graph } : { graph, nodes: [node] };
  const document = await post<{
    predictions: Row[] | null;
    job: { state: string; error: { message: string } | null };
  }>(`/v1/gnns/${gnn}/predictions`, body, {}, signal);
  const row = document.predictions?.[0];
  if (row === undefined) {
    throw new Problem(0, document.job.error?.message ?? "The prediction has not ended in time.");
  }
  const prediction = "nodes" in row ? row.nodes[0] : row;
  if (prediction === undefined) throw new Problem(0, "The GNN predicted nothing for this node.");
  return prediction;
}
