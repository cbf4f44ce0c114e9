// A whole conversation as a Markdown file, made in the browser from the history the house keeps.

import { Fold } from "./fold.js";
import { exact } from "./times.js";
import { call } from "./wire.js";

const PAGE = 1000; // items

/** Raises Failed. */
async function history(thread) {
  const fold = new Fold();
  for (let since = 0; since !== null; ) {
    const answer = await call(`/api/v1/sessions/${encodeURIComponent(thread)}?since=${since}&limit=${PAGE}`);
    for (const item of answer.history) fold.take(item);
    since = answer.next;
  }
  return fold.entries.filter((entry) => !entry.gone);
}

/** A fence that no fence inside ends. */
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

function part(entry) {
  const files = (entry.files ?? []).map((file) => `- file: ${file.name ?? file.split("/").at(-1)}`).join("\n");
  switch (entry.kind) {
    case "person":
      return `## You, ${exact(entry.at)}\n\n${[entry.text, files].filter(Boolean).join("\n\n")}`;
    case "agent":
      return `## ohmo, ${exact(entry.at)}\n\n${[entry.text, files].filter(Boolean).join("\n\n")}`;
    case "tool":
      return `**${entry.name}** ${entry.state === "done" ? "" : `(${entry.state})`}\n\n${fenced(JSON.stringify(entry.given, null, 2))}${entry.result ? `\n\n${fenced(entry.result)}` : ""}`;
    default:
      return entry.text;
  }
}

/** Saves it under its title. Raises Failed. */
export async function save(thread, title) {
  const entries = await history(thread);
  const text = `# ${title}\n\n${entries.map(part).join("\n\n")}\n`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  link.download = `${title.replace(/[^\p{L}\p{N} _-]+/gu, " ").trim().slice(0, 80) || "conversation"}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
