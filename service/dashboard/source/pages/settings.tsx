// Who is logged in, and the keys of the tenant for its admins.

import { useState } from "preact/hooks";
import { post, type Problem, remove } from "../api";
import { timeAgo } from "../format";
import { useDocument } from "../loading";
import { Card, Loading, ProblemBox, State, Table } from "../parts/basics";
import type { Key, Page, Scope, Session } from "../types";

const SCOPES: readonly Scope[] = ["read", "explain", "register", "admin"];

export function SettingsPage({ session }: { session: Session }) {
  return (
    <>
      <h1>Settings</h1>
      <Card title="This session">
        {session.key_id === null ? (
          <p>
            This deployment has no keys: it serves this machine only, and everybody on it may do everything. Make the first key with{" "}
            <code>python -m store keys create</code>.
          </p>
        ) : (
          <p>
            Tenant <strong>{session.tenant}</strong>, key {session.key_id}, scopes {session.scopes.join(", ")}
            {session.expires_at !== null && `, until ${new Date(session.expires_at).toLocaleString()}`}.
          </p>
        )}
      </Card>
      {session.key_id !== null && session.scopes.includes("admin") && <Keys own={session.key_id} />}
    </>
  );
}

function Keys({ own }: { own: string }) {
  const keys = useDocument<Page<Key>>("/v1/keys?limit=200");
  const [made, setMade] = useState<Key>();
  const [problem, setProblem] = useState<Problem>();
  const show = (key: Key) => {
    setMade(key);
    setProblem(undefined);
    keys.reload();
  };
  const create = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form);
    const days = String(data.get("days") ?? "");
    const body = {
      name: data.get("name"),
      scopes: data.getAll("scopes"),
      ...(days === "" ? {} : { days: Number(days) }),
    };
    post<Key>("/v1/keys", body).then((key) => {
      form.reset();
      show(key);
    }, setProblem);
  };
  if (keys.document === undefined) return keys.problem ? <ProblemBox problem={keys.problem} /> : <Loading />;
  return (
    <Card title="Keys">
      <Table caption="Keys" head={["Key", "Name", "Scopes", "State", "Last used", "Expires", "Change"]}>
        {keys.document.items.map((key) => (
          <tr key={key.id}>
            <th scope="row">{key.prefix}…</th>
            <td>{key.name}</td>
            <td>{key.scopes.join(", ")}</td>
            <td>
              <State state={key.state} />
            </td>
            <td>{key.last_used_at === null ? "never" : timeAgo(key.last_used_at)}</td>
            <td>{key.expires_at === null ? "never" : new Date(key.expires_at).toLocaleDateString()}</td>
            <td>
              {key.state === "active" && (
                <>
                  <button type="button" onClick={() => post<Key>(`/v1/keys/${key.id}/rotate`, {}).then(show, setProblem)}>
                    Rotate<span class="hidden"> {key.name}</span>
                  </button>{" "}
                  <button
                    type="button"
                    disabled={key.id === own}
                    onClick={() => remove(`/v1/keys/${key.id}`).then(keys.reload, setProblem)}
                  >
                    Revoke<span class="hidden"> {key.name}</span>
                  </button>
                </>
              )}
            </td>
          </tr>
        ))}
      </Table>
      <ProblemBox problem={problem} />
      {made?.key !== undefined && (
        <div class="notice" role="status">
          The key <strong>{made.name}</strong>, shown once: <code>{made.key}</code>
        </div>
      )}
      <h3>Make a key</h3>
      <form onSubmit={create} class="stack">
        <label>
          Name <input name="name" required maxLength={200} />
        </label>
        <fieldset>
          <legend>Scopes</legend>
          {SCOPES.map((scope) => (
            <label key={scope}>
              <input type="checkbox" name="scopes" value={scope} defaultChecked={scope === "read"} /> {scope}
            </label>
          ))}
        </fieldset>
        <label>
          Days until it expires <input name="days" type="number" min="1" placeholder="never" />
        </label>
        <button type="submit" class="primary">
          Make the key
        </button>
      </form>
    </Card>
  );
}
