// What a permission is for, as a change or a command to look at; the card's own words stand below it.

import { coloured } from "./colours.js";
import { drawn } from "./diff.js";
import { node } from "./transcript.js";

/** The parts that are drawn, and those that stay as they are, by tool. */
const SHOWN = {
  Edit: ({ old_string, new_string, ...rest }) => [[[old_string, new_string]], rest],
  MultiEdit: ({ edits, ...rest }) => [edits.map((edit) => [edit.old_string, edit.new_string]), { ...rest, replace_all: edits.some((edit) => edit.replace_all) || undefined }],
  Write: ({ content, ...rest }) => [[["", content]], rest],
  Bash: ({ command, ...rest }) => [command, rest],
};

/** Does the house's card have exactly these letters? Where it wrote something out that nobody would see, only its own words may be looked at. */
function said(value, words) {
  return typeof value === "string" ? words.includes(value) : ["number", "boolean", "undefined"].includes(typeof value);
}

function command(text) {
  const box = node("pre", "", node("code", "", ...coloured(text, "sh")));
  box.tabIndex = 0;
  box.setAttribute("aria-label", "The command");
  return node("figure", "code bare", box);
}

/** Nodes, or null where the card's words (`detail`) have to do. */
export function askedCall({ tool, arguments: given, detail }) {
  if (!Object.hasOwn(SHOWN, tool)) return null;
  try {
    const [what, rest] = SHOWN[tool](given);
    const parts = Array.isArray(what) ? what.flat() : [what];
    if (![...parts, ...Object.values(rest)].every((value) => said(value, detail)) || !parts.every((part) => typeof part === "string")) return null;
    const facts = Object.entries(rest).filter(([, value]) => value !== undefined).map(([name, value]) => node("p", "muted fact-of-call", `${name}: ${value}`));
    const pictures = Array.isArray(what) ? what.map(([before, after]) => drawn(before, after)) : [command(what)];
    return [node("p", "", node("strong", "", tool)), ...pictures, ...facts];
  } catch {
    return null; // arguments of another shape
  }
}
