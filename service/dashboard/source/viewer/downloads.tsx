// Downloads of one alternative, the permalink and the receipt.

import { useState } from "preact/hooks";
import { post, type Problem } from "../api";
import type { Counterfactual, CounterfactualResult, Explanation } from "../types";
import { Card, ProblemBox } from "../parts/basics";

const SECONDS_PER_DAY = 86_400;

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
  const choice = `graph=${props.graph}&alternative=${props.alternative}`;
  const file = (format: string) =>
    `/v1/explanations/${explanation.id}/answers/${stage}?format=${format}&${choice}`;
  const about = (kind: "report" | "letter") => `/v1/explanations/${explanation.id}/${kind}?${choice}`;
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
        <a class="button" href={about("report")} target="_blank" rel="noopener">
          Report
        </a>
        <a class="button" href={about("letter")} target="_blank" rel="noopener">
          Letter
        </a>
        <button type="button" onClick={copy}>
          {copied ? "Copied" : "Copy link"}
        </button>
      </p>
      <ShareForm explanation={explanation.id} choice={choice} />
      <details>
        <summary>Receipt</summary>
        <pre tabIndex={0}>{JSON.stringify(props.result.receipt, null, 2)}</pre>
      </details>
    </Card>
  );
}

// Makes a link that opens this explanation without a key, for a frame in another page.
function ShareForm({ explanation, choice }: { explanation: string; choice: string }) {
  const [days, setDays] = useState(1);
  const [link, setLink] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const make = () =>
    post<{ url: string }>(`/v1/explanations/${explanation}/links`, { seconds: days * SECONDS_PER_DAY }).then((made) => {
      const token = made.url.slice(made.url.indexOf("?") + 1);
      setLink(`${location.origin}/embed/explanations/${explanation}?${choice}&${token}`);
    }, setProblem);
  return (
    <div>
      <div class="row">
        <label>
          Link for a frame, days
          <input type="number" min="1" max="7" value={days} onInput={(event) => setDays(Number(event.currentTarget.value))} />
        </label>
        <button type="button" onClick={make}>
          Make the link
        </button>
      </div>
      <ProblemBox problem={problem} />
      {link !== undefined && (
        <p role="status" class="small">
          Who has this link can see this explanation until it expires: <a href={link}>{link}</a>
        </p>
      )}
    </div>
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
