// Small parts every view of the dashboard is made of.

import { brief, exact, relative } from "./times.js";
import { icon, node } from "./transcript.js";

export { icon, node, relative };

/** A time that stays right: relative, exact on hover; turned every 15 s for all of them at once. */
export function when(at, before = "") {
  if (!at) return node("span", "muted", "never");
  const made = node("time", "when", `${before}${relative(at)}`);
  made.dateTime = at;
  made.title = exact(at);
  made.dataset.before = before;
  return made;
}

/** Both: how long ago, and when exactly. */
export function moment(at) {
  if (!at) return when(at);
  return node("span", "", when(at), node("span", "muted exact", ` ${brief(at)}`));
}
setInterval(() => {
  for (const made of document.querySelectorAll("time.when")) {
    const text = `${made.dataset.before}${relative(made.dateTime)}`;
    if (made.textContent !== text) made.textContent = text;
  }
}, 15_000);

/** How long from one time to another: "1.2 s", "3 min". */
export function span(from, to) {
  const seconds = Math.max(0, (new Date(to) - new Date(from)) / 1000);
  if (seconds < 0.05) return "less than 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function button(label, className, act, name) {
  const made = node("button", className, ...(name ? [icon(name), node("span", "", label)] : [label]));
  made.type = "button";
  made.addEventListener("click", (event) => {
    event.stopPropagation();
    act(made, event);
  });
  return made;
}

/** Browsers keep their clipboard from pages of a plain address in the network; the old way still works there. */
async function toClipboard(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = Object.assign(node("textarea", "unseen"), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function copy(text, label = "Copy") {
  const made = node("button", "icon tiny", icon("copy"));
  made.type = "button";
  made.title = label;
  made.setAttribute("aria-label", label === "Copy" ? `Copy ${text.slice(0, 60)}` : label);
  made.addEventListener("click", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    await toClipboard(text);
    made.classList.add("done");
    made.replaceChildren(icon("check"));
    setTimeout(() => {
      made.classList.remove("done");
      made.replaceChildren(icon("copy"));
    }, 1200);
  });
  return made;
}

export function pill(text, tone = "quiet") {
  return node("span", `pill ${tone}`, text);
}

export function empty(name, title, text, ...more) {
  const made = node("div", "nothing", node("span", "nothing-icon", icon(name)), node("h2", "", title), node("p", "", text), ...more);
  made.setAttribute("role", "status");
  return made;
}

/** Label and value pairs; a value may be a node. What is null is left out. */
export function facts(...pairs) {
  return node("dl", "facts-list", ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value]) => [node("dt", "", name), node("dd", "", value)]));
}

/** The words a row begins with, from the side they are read from. */
export function rowTitle(words) {
  return Object.assign(node("span", "row-title", words), { dir: "auto" });
}

/** An id one can take along. */
export function id(text) {
  return node("span", "id", node("code", "", text), copy(text));
}

export function money(micro) {
  const usd = micro / 1e6;
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "< $0.0001";
  return `$${usd < 0.01 ? usd.toFixed(4) : usd < 1 ? usd.toFixed(3) : usd.toFixed(2)}`;
}

/** Of calls that cost so much; the price of `unpriced` of them is not known. */
export function cost(micro, unpriced) {
  if (unpriced && !micro) return "price unknown";
  return unpriced ? `${money(micro)} + ${unpriced} of unknown price` : money(micro);
}

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export function count(number) {
  return number < 1000 ? String(number) : short.format(number);
}

/** `slack:C123/1700.1`, as the command line takes it. */
export function place(address) {
  return `${address.channel}:${address.chat}${address.topic ? `/${address.topic}` : ""}`;
}

/** Asks before something that cannot be taken back; resolves with true or false. */
export function sure(text, yes) {
  return new Promise((resolve) => {
    const dialog = node("dialog", "sure", node("p", "", text));
    const no = button("Keep it", "choice", () => dialog.close());
    const go = button(yes, "choice danger", () => dialog.close("yes"));
    dialog.append(node("div", "choices", go, no));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/** A labelled choice for the tool bar. */
export function chooser(label, options, value, act) {
  const made = node("select", "", ...options.map(([key, text]) => Object.assign(node("option", "", text), { value: key })));
  made.value = value;
  made.setAttribute("aria-label", label);
  made.addEventListener("change", () => act(made.value));
  return made;
}

/** A group of buttons of which one is chosen. */
export function tabs(label, options, value, act) {
  const made = node("div", "tabs");
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", label);
  for (const [key, text] of options) {
    const tab = button(text, "tab", () => act(key));
    tab.setAttribute("aria-pressed", String(key === value));
    made.append(tab);
  }
  return made;
}

/** A field that looks for words, once typing rests; Escape leads back to the list. */
export function search(label, placeholder, act, back) {
  const field = Object.assign(node("input", "search"), { type: "search", placeholder, value: "", autocomplete: "off", maxLength: 200 });
  field.setAttribute("aria-label", label);
  let typing;
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => act(field.value.trim()), 250);
  });
  field.addEventListener("keydown", (event) => event.key === "Escape" && back.focus());
  return field;
}
