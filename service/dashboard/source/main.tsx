// The dashboard: one page of HTML that shows every view.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { followLinks, useLocation } from "./navigation";
import { AskPage } from "./pages/ask";
import { ExplanationPage } from "./pages/explanation";
import { ExplanationsPage } from "./pages/explanations";
import { GnnPage } from "./pages/gnn";
import { GnnsPage } from "./pages/gnns";
import { JobPage } from "./pages/job";
import { OverviewPage } from "./pages/overview";
import { PageLink } from "./parts/basics";

const SECTIONS = [
  { path: "/", title: "Overview" },
  { path: "/gnns", title: "GNNs" },
  { path: "/explanations", title: "Explanations" },
  { path: "/ask", title: "Ask" },
] as const;

function View({ location }: { location: URL }) {
  const [section = "", id] = location.pathname.slice(1).split("/").map(decodeURIComponent);
  if (section === "") return <OverviewPage />;
  if (section === "gnns") return id === undefined ? <GnnsPage /> : <GnnPage key={id} id={id} />;
  if (section === "explanations") {
    return id === undefined ? <ExplanationsPage query={location.searchParams} /> : <ExplanationPage key={id} id={id} query={location.searchParams} />;
  }
  if (section === "jobs" && id !== undefined) return <JobPage key={id} id={id} />;
  if (section === "ask") return <AskPage query={location.searchParams} />;
  return <p role="alert">There is no page at {location.pathname}.</p>;
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
  const section = `/${location.pathname.split("/")[1] ?? ""}`;
  useEffect(() => {
    document.addEventListener("click", followLinks);
    return () => document.removeEventListener("click", followLinks);
  }, []);
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
          {SECTIONS.map(({ path, title }) => (
            <a key={path} href={path} data-page aria-current={path === section ? "page" : undefined}>
              {title}
            </a>
          ))}
          <a href="/docs">API</a>
        </nav>
        <ThemeButton />
      </header>
      <main id="content" tabIndex={-1}>
        <View location={location} />
      </main>
    </>
  );
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
