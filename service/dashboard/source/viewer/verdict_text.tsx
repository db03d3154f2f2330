// What a verdict means and what to do next, in a sentence or two.

import { plural } from "../format";
import type { Counterfactual, Verdict } from "../types";
import { VerdictPill } from "../parts/basics";

export function VerdictText({ chosen, reason, isProvisional }: { chosen: Counterfactual; reason: string | null; isProvisional: boolean }) {
  const waits = isProvisional && chosen.verdict === "unjudged";
  if (chosen.verdict === undefined) return null;
  return (
    <p class={`verdict-box ${chosen.verdict}`}>
      <VerdictPill verdict={chosen.verdict} /> {meaning(chosen, reason)} <span class="muted">{waits ? "Wait for the final answer, which is judged." : NEXT[chosen.verdict]}</span>
    </p>
  );
}

function meaning({ verdict, transfers }: Counterfactual, reason: string | null): string {
  const count = transfers ? `${transfers.shared} of ${plural(transfers.agreeing, "other network")}` : "";
  if (verdict === "meaningful") {
    return `${count} that learned from the same data change their answer, too. The edits probably show what separates the classes in the data.`;
  }
  if (verdict === "brittle") {
    return `Only ${count} that learned from the same data change their answer. The edits show a weakness of this GNN rather than a property of its data.`;
  }
  return `Nobody has checked whether other networks would change their answer: ${reason ?? "too few of them give the original this class"}.`;
}

const NEXT: Record<Verdict, string> = {
  meaningful: "Compare it with the nearest real graph, or freeze what cannot change and ask again.",
  brittle: "Look at the other alternatives, or freeze the edited parts and ask again.",
  unjudged: "Before you rely on it, ask again for a believable answer, which is judged.",
};
