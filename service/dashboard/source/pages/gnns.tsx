// Registered GNNs, and a form that registers another.

import { useState } from "preact/hooks";
import { post, type Problem } from "../api";
import { plural, timeAgo } from "../format";
import { useDocument } from "../loading";
import { navigate } from "../navigation";
import { Card, Loading, PageLink, ProblemBox, State, Table } from "../parts/basics";
import type { Gnn, Page } from "../types";

export function GnnsPage() {
  const gnns = useDocument<Page<Gnn>>("/v1/gnns?limit=200");
  return (
    <>
      <h1>GNNs</h1>
      <ProblemBox problem={gnns.problem} />
      {gnns.document === undefined ? <Loading /> : <GnnTable gnns={gnns.document.items} />}
      <RegisterForm />
    </>
  );
}

function GnnTable({ gnns }: { gnns: Gnn[] }) {
  if (gnns.length === 0) return <p class="muted">No GNN is registered yet.</p>;
  return (
    <Table caption="GNNs" head={["GNN", "State", "Classifies", "Classes", "Aliases", "Registered"]}>
      {gnns.map((gnn) => (
        <tr key={gnn.id}>
          <th scope="row">
            <PageLink to={`/gnns/${gnn.id}`}>
              {gnn.name}@{gnn.version}
            </PageLink>
          </th>
          <td>
            <State state={gnn.state} />
          </td>
          <td>{gnn.spec.task}s</td>
          <td>{gnn.spec.class_names?.join(", ") ?? plural(gnn.spec.classes, "class").replace("classs", "classes")}</td>
          <td>{gnn.aliases.join(", ")}</td>
          <td>{timeAgo(gnn.created_at)}</td>
        </tr>
      ))}
    </Table>
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
