// Registered GNNs, and a form that registers another.

import { useState } from "preact/hooks";
import { mayDo, post, type Problem } from "../api";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, ProblemBox } from "../parts/basics";
import { GnnTable } from "../parts/gnn_table";
import type { Gnn, Page } from "../types";

export function GnnsPage() {
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  return (
    <>
      <h1>GNNs</h1>
      <ProblemBox problem={gnns.problem} />
      {gnns.document === undefined ? <Loading /> : <GnnTable gnns={gnns.document.items} />}
      {mayDo("register") && <RegisterForm />}
    </>
  );
}

function RegisterForm() {
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      const form = new FormData(event.currentTarget as HTMLFormElement);
      const gnn = await post<Gnn>("/v1/gnns", form, { Prefer: "wait=0" });
      navigate(`/gnns/${gnn.id}`);
    } catch (error) {
      setProblem(error as Problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Card title="Register a GNN">
      <p class="muted">
        <code>d4explain export</code> writes both files from a PyG model. Weights are safetensors; uploads carry no code.
      </p>
      <form onSubmit={submit} class="stack">
        <label>
          Name <input name="name" required maxLength={200} />
        </label>
        <label>
          Spec <input name="spec" type="file" accept=".json,application/json" required />
        </label>
        <label>
          Weights <input name="weights" type="file" accept=".safetensors" required />
        </label>
        <ProblemBox problem={problem} />
        <button type="submit" disabled={busy}>
          Register
        </button>
      </form>
    </Card>
  );
}
