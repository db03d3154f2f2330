// Downloads of one alternative, the permalink and the receipt.

import { useState } from "preact/hooks";
import type { Counterfactual, CounterfactualResult, Explanation } from "../types";
import { Card } from "./basics";

interface Props {
  explanation: Explanation;
  result: CounterfactualResult;
  graph: number;
  alternative: number;
  chosen: Counterfactual | undefined;
}

export function Downloads(props: Props) {
  const { explanation, chosen } = props;
  const [copied, setCopied] = useState(false);
  const stage = props.result.stage;
  const file = (format: string) =>
    `/v1/explanations/${explanation.id}/answers/${stage}?format=${format}&graph=${props.graph}&alternative=${props.alternative}`;
  const name = `${explanation.id}-${props.graph + 1}-${props.alternative + 1}`;
  const copy = () => {
    void navigator.clipboard.writeText(location.href).then(() => setCopied(true));
  };
  return (
    <Card title="Take it with you">
      <p class="row">
        <a class="button" href={file("svg")} download={`${name}.svg`}>
          SVG
        </a>
        <button type="button" onClick={() => void savePng(file("svg"), `${name}.png`)}>
          PNG
        </button>
        {chosen && (
          <>
            <a class="button" href={file("graphml")} download={`${name}.graphml`}>
              GraphML
            </a>
            <button type="button" onClick={() => save(`${name}.csv`, "text/csv", editsCsv(chosen))}>
              CSV of edits
            </button>
          </>
        )}
        <a class="button" href={`/v1/explanations/${explanation.id}/answers/${stage}`} download={`${explanation.id}.json`}>
          JSON
        </a>
        <button type="button" onClick={copy}>
          {copied ? "Copied" : "Copy link"}
        </button>
      </p>
      <details>
        <summary>Receipt</summary>
        <pre tabIndex={0}>{JSON.stringify(props.result.receipt, null, 2)}</pre>
      </details>
    </Card>
  );
}

function editsCsv(chosen: Counterfactual): string {
  const rows = chosen.edits.map((edit) => [edit.action, edit.source, edit.target, edit.source_type ?? "", edit.target_type ?? ""]);
  return [["action", "source", "target", "source_type", "target_type"], ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
}

// Spreadsheets execute cells that begin with these characters.
function quoted(value: string | number): string {
  const text = typeof value === "string" && /^[=+\-@\t]/.test(value) ? `'${value}` : String(value);
  return `"${text.replaceAll('"', '""')}"`;
}

function save(name: string, type: string, content: string | Blob): void {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

// Paints the service's SVG on a canvas at twice its size.
async function savePng(path: string, name: string): Promise<void> {
  const svg = await (await fetch(path)).blob();
  const image = new Image();
  const url = URL.createObjectURL(svg);
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.naturalWidth;
    canvas.height = 2 * image.naturalHeight;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const png = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (png !== null) save(name, "image/png", png);
  } finally {
    URL.revokeObjectURL(url);
  }
}
