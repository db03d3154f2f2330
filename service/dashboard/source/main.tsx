// The dashboard: one page of HTML that shows every view.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Problem, remove, setSession as rememberSession } from "./api";
import { followLinks, useLocation } from "./navigation";
import { AskPage } from "./pages/ask";
import { ComparePage } from "./pages/compare";
import { ComparisonPage } from "./pages/comparison";
import { EvaluatePage } from "./pages/evaluate";
import { EvaluationPage } from "./pages/evaluation";
import { EvaluationsPage } from "./pages/evaluations";
import { ExplanationPage } from "./pages/explanation";
import { ExplanationsPage } from "./pages/explanations";
import { GnnPage } from "./pages/gnn";
import { GnnsPage } from "./pages/gnns";
import { JobPage } from "./pages/job";
import { LoginPage } from "./pages/login";
import { OverviewPage } from "./pages/overview";
import { SettingsPage } from "./pages/settings";
import { Loading, PageLink, ProblemBox } from "./parts/basics";
import type { Session } from "./types";

const SECTIONS = [
  { path: "/", title: "Overview" },
  { path: "/gnns", title: "GNNs" },
  { path: "/explanations", title: "Explanations" },
  { path: "/evaluations", title: "Evaluations" },
  { path: "/ask", title: "Ask" },
  { path: "/settings", title: "Settings" },
] as const;

const PARTS_OF_EVALUATIONS: readonly string[] = ["/comparisons", "/evaluate", "/compare"];

function View({ location, session }: { location: URL; session: Session }) {
  const [section = "", id] = location.pathname.slice(1).split("/").map(decodeURIComponent);
  if (section === "") return <OverviewPage />;
  if (section === "gnns") return id === undefined ? <GnnsPage /> : <GnnPage key={id} id={id} />;
  if (section === "explanations") {
    return id === undefined ? <ExplanationsPage query={location.searchParams} /> : <ExplanationPage key={id} id={id} query={location.searchParams} />;
  }
  if (section === "evaluations") return id === undefined ? <EvaluationsPage query={location.searchParams} /> : <EvaluationPage key={id} id={id} />;
  if (section === "comparisons" && id !== undefined) return <ComparisonPage key={id} id={id} />;
  if (section === "evaluate") return <EvaluatePage query={location.searchParams} />;
  if (section === "compare") return <ComparePage query={location.searchParams} />;
  if (section === "jobs" && id !== undefined) return <JobPage key={id} id={id} />;
  if (section === "ask") return <AskPage query={location.searchParams} />;
  if (section === "settings") return <SettingsPage session={session} />;
  return <p role="alert">There is no page at {location.pathname}.</p>;
}

// Tabs, bookmarks and screen readers name a page by its title.
function titleOf(path: string): string {
  const [section = "", id] = path.slice(1).split("/").map(decodeURIComponent);
  const title = section === "jobs" ? "Job" : SECTIONS.find((one) => one.path === `/${section}`)?.title;
  return [title, id, "d4explain"].filter((part) => part !== undefined).join(" · ");
}

const THEME = "d4explain-theme";

function ThemeButton() {
  const [dark, setDark] = useState(
    () => (localStorage.getItem(THEME) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark",
  );
  useEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [dark]);
  const change = () => {
    localStorage.setItem(THEME, dark ? "light" : "dark");
    setDark(!dark);
  };
  return (
    <button type="button" class="plain" onClick={change} aria-label={dark ? "Use light colours" : "Use dark colours"}>
      {dark ? "☀" : "☾"}
    </button>
  );
}

function App() {
  const location = useLocation();
  const [session, setSession] = useState<Session | null>(); // null: a key is needed
  const [problem, setProblem] = useState<Problem>();
  const first = `/${location.pathname.split("/")[1] ?? ""}`;
  const section = PARTS_OF_EVALUATIONS.includes(first) ? "/evaluations" : first;
  useEffect(() => {
    document.title = titleOf(location.pathname);
  }, [location.pathname]);
  useEffect(() => {
    document.addEventListener("click", followLinks);
    return () => document.removeEventListener("click", followLinks);
  }, []);
  const start = (found: Session) => {
    rememberSession(found);
    setSession(found);
  };
  useEffect(() => {
    get<Session>("/v1/session").then(start, (error: Problem) => {
      if (error.status === 401) setSession(null);
      else setProblem(error);
    });
  }, []);
  const logOut = () => {
    remove("/v1/session").then(() => {
      rememberSession(null);
      setSession(null);
    }, setProblem);
  };
  return (
    <>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <header>
        <PageLink to="/" class="brand">
          d4explain
        </PageLink>
        <nav aria-label="Sections">
          {session != null &&
            SECTIONS.map(({ path, title }) => (
              <a key={path} href={path} data-page aria-current={path === section ? "page" : undefined}>
                {title}
              </a>
            ))}
          <a href="/docs">API</a>
        </nav>
        {session?.key_id != null && (
          <button type="button" class="plain" onClick={logOut}>
            Log out
          </button>
        )}
        <ThemeButton />
      </header>
      <main id="content" tabIndex={-1}>
        <ProblemBox problem={problem} />
        {session === undefined && problem === undefined && <Loading />}
        {session === null && <LoginPage onSession={start} />}
        {session != null && <View location={location} session={session} />}
      </main>
    </>
  );
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
