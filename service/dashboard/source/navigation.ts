// Pages are paths of the API's own address: links work without a server round trip.

import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();

export function navigate(path: string): void {
  history.pushState(null, "", path);
  for (const listener of listeners) listener();
  document.getElementById("content")?.focus(); // a screen reader starts at the new page
  scrollTo(0, 0);
}

export function useLocation(): URL {
  const [location, setLocation] = useState(() => new URL(window.location.href));
  useEffect(() => {
    const update = () => setLocation(new URL(window.location.href));
    listeners.add(update);
    addEventListener("popstate", update);
    return () => {
      listeners.delete(update);
      removeEventListener("popstate", update);
    };
  }, []);
  return location;
}

// Follows links of this site without loading the page again.
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest("a");
  if (link === null || link.target !== "" || link.hasAttribute("download")) return;
  if (link.origin !== location.origin || !link.hasAttribute("data-page")) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}
