// Text that a person pasted or dropped: JSON of any graph format, or SMILES.

export function parseGraph(text: string): unknown {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") && !trimmed.startsWith("[")) return { smiles: trimmed };
  const document: unknown = JSON.parse(trimmed);
  // Files of examples hold several graphs.
  if (Array.isArray(document)) return document[0];
  if (typeof document === "object" && document !== null && "graphs" in document && Array.isArray(document.graphs)) {
    return document.graphs[0];
  }
  return document;
}
