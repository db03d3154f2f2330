// Exchanges an API key for a session; the key is not kept in the page.

import { useState } from "preact/hooks";
import { post, type Problem } from "../api";
import { Card, ProblemBox } from "../parts/basics";
import type { Session } from "../types";

export function LoginPage({ onSession }: { onSession: (session: Session) => void }) {
  const [problem, setProblem] = useState<Problem>();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const key = String(new FormData(form).get("key") ?? "").trim();
    form.reset();
    setProblem(undefined);
    post<Session>("/v1/session", undefined, { Authorization: `Bearer ${key}` }).then(onSession, setProblem);
  };
  return (
    <>
      <h1>Log in</h1>
      <Card title="This deployment needs a key">
        <form onSubmit={submit} class="stack">
          <label>
            API key <input name="key" type="password" required autocomplete="off" spellcheck={false} />
          </label>
          <ProblemBox problem={problem} />
          <button type="submit" class="primary">
            Log in
          </button>
        </form>
        <p class="muted">An admin makes keys with <code>d4explain keys create</code>. The browser keeps a session, not the key.</p>
      </Card>
    </>
  );
}
