// Entries of the fold as DOM; keeps one element per entry and touches only what changed.

import { markdown } from "./markdown.js";
import { exact } from "./times.js";

const ICONS = { Read: "file", Glob: "search", Grep: "search", WebSearch: "search", ToolSearch: "search", Write: "pen", Edit: "pen", MultiEdit: "pen", Bash: "terminal", TodoWrite: "list", WebFetch: "globe", AskUser: "ask" };
const ORIGINS = { cron: "on schedule", api: "by command line", child: "from a helper", hook: "from a webhook", owner: "by the owner" };
const PICTURE = /\.(?:png|jpe?g|gif|webp)$/i;

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function node(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

export class Transcript {
  /** `linked`: attachments can be fetched here; `states`: say of each post whether it arrived; `actions(entry)`: what stands below a message. */
  constructor(box, cards, { linked = true, states = false, actions = () => null } = {}) {
    this.box = box;
    this.cards = cards;
    this.linked = linked;
    this.states = states;
    this.actions = actions;
    this.nodes = new Map();
    this.drawn = new Map(); // entry id -> what its element shows
    this.shownDay = "";
  }

  /** The same with more in front: what stands already is only touched where it changed. */
  grow(entries) {
    const there = new Set(entries.map((entry) => entry.id));
    for (const [id, old] of this.nodes) {
      if (there.has(id)) continue;
      old.remove(); // it was an edit of something that was not shown then
      this.nodes.delete(id);
    }
    const first = this.box.firstElementChild;
    const front = document.createDocumentFragment();
    const known = entries.filter((entry) => this.nodes.has(entry.id) && JSON.stringify(entry) !== this.drawn.get(entry.id));
    const last = this.shownDay;
    this.shownDay = "";
    for (const entry of entries) if (!this.nodes.has(entry.id) && !entry.gone) this.append(entry, front);
    if (first?.className === "day" && first.textContent === this.shownDay) first.remove();
    if (last) this.shownDay = last;
    this.box.prepend(front);
    this.show(known);
  }

  append(entry, box) {
    const made = this.draw(entry);
    this.divide(entry.at, box);
    box.append(made);
    this.keep(entry, made);
  }

  keep(entry, made) {
    this.nodes.set(entry.id, made);
    this.drawn.set(entry.id, JSON.stringify(entry));
  }

  /** Entries that are new or changed. */
  show(entries) {
    for (const entry of entries) {
      const old = this.nodes.get(entry.id);
      if (entry.gone) {
        old?.remove();
        continue;
      }
      if (!old) {
        this.append(entry, this.box);
        continue;
      }
      const made = this.draw(entry);
      if (old.querySelector("details[open]")) made.querySelector("details")?.setAttribute("open", "");
      old.replaceWith(made);
      this.keep(entry, made);
    }
  }

  divide(at, box) {
    const date = at ? day.format(new Date(at)) : this.shownDay;
    if (date === this.shownDay) return;
    this.shownDay = date;
    box.append(node("div", "day", date));
  }

  draw(entry) {
    switch (entry.kind) {
      case "person":
        return person(entry, this.linked, this.actions(entry));
      case "agent":
        return this.agent(entry);
      case "tool":
        return tool(entry);
      case "aside":
        return node("div", "turn aside", body(entry.text));
      default:
        return node("div", "line", entry.text);
    }
  }

  agent(entry) {
    const card = this.cards.isCard(entry);
    const made = node("article", `turn agent${card ? " card" : ""}${entry.notice ? " notice" : ""}${entry.closed ? " closed" : ""}`);
    made.setAttribute("aria-label", card ? "Question" : "ohmo");
    if (card) made.append(node("div", "card-icon", icon("shield")));
    const inner = node("div", "inner", this.cards.asked?.(entry) ?? (entry.plain ? plain(entry.text) : body(entry.text)));
    made.append(inner);
    if (entry.files.length) inner.append(files(entry, entry.files.map((path) => path.split("/").at(-1)), this.linked));
    if (entry.failed) inner.append(node("p", "refused", `This could not be delivered${this.states && entry.why ? `: ${entry.why}` : ""}`));
    else if (this.states && (entry.state === "ready" || entry.state === "sending")) inner.append(node("p", "muted", entry.why ? `on its way; the last try failed: ${entry.why}` : "on its way"));
    const controls = this.cards.controls(entry);
    if (controls) inner.append(controls);
    const row = card ? null : this.actions(entry);
    if (row) inner.append(row);
    made.append(stamp(entry));
    return made;
  }
}

const BLOCKS = "p, li, h2, h3, h4, h5, h6, td:not([class]), th:not([class])";

/** What a model or a person wrote; each paragraph runs as its own first letter does, Arabic and Hebrew from the right. */
export function body(text) {
  const made = node("div", "md");
  made.append(markdown(text));
  for (const block of made.querySelectorAll(BLOCKS)) block.dir = "auto";
  return made;
}

function plain(text) {
  return Object.assign(node("p", "plain", text), { dir: "auto" });
}

function person(entry, linked, actions) {
  const made = node("article", `turn person${entry.command ? " command" : ""}`);
  made.setAttribute("aria-label", "You");
  const bubble = node("div", "bubble");
  if (entry.origin) bubble.append(node("span", "origin", ORIGINS[entry.origin] ?? entry.origin));
  if (entry.text) bubble.append(plain(entry.text));
  if (entry.files?.length) bubble.append(files(entry, entry.files.map((file) => file.name), linked));
  made.append(bubble, stamp(entry));
  if (actions) made.append(actions);
  if (entry.refused) made.append(node("p", "refused", entry.refused));
  return made;
}

function stamp(entry) {
  const made = node("time", "stamp", `${clock.format(new Date(entry.at))}${entry.edited ? " · edited" : ""}`);
  made.dateTime = entry.at;
  made.title = exact(entry.at);
  return made;
}

function files(entry, names, linked) {
  const made = node("ul", "files");
  names.forEach((name, index) => {
    if (!linked) return made.append(node("li", "", node("p", "file", icon("file"), name)));
    const url = `/api/v1/web/files/${encodeURIComponent(entry.thread)}/${entry.seq}/${index}`;
    const link = node("a", PICTURE.test(name) ? "picture" : "file", PICTURE.test(name) ? picture(url, name) : icon("file"), PICTURE.test(name) ? "" : name);
    link.href = url;
    link.target = "_blank";
    link.rel = "noopener";
    made.append(node("li", "", link));
  });
  return made;
}

/** The file may still be on its way when its row is shown. */
function picture(url, name) {
  const made = node("img", "");
  made.alt = name;
  made.src = url;
  let tries = 0;
  made.addEventListener("error", () => {
    if (tries++ < 5) setTimeout(() => (made.src = `${url}?${tries}`), 400 * tries);
  });
  return made;
}

function tool(entry) {
  const head = node("summary", "", icon(ICONS[entry.name] ?? "tool"), node("span", "name", entry.name), node("span", "what", entry.summary), node("span", "state", state(entry)));
  const details = node("details", `tool ${entry.state}`, head);
  if (entry.name === "TodoWrite" && Array.isArray(entry.given.todos)) details.append(todos(entry.given.todos));
  else {
    const given = JSON.stringify(entry.given, null, 2);
    if (given !== "{}") details.append(node("pre", "given", given));
    if (entry.result !== null) details.append(node("pre", "result", entry.result || "(nothing)"));
  }
  return node("div", "turn activity", details);
}

function state(entry) {
  return { asked: "", running: "running…", done: "", failed: "failed", refused: "not run" }[entry.state];
}

function todos(list) {
  return node("ul", "todos", ...list.map((todo) => node("li", String(todo.status ?? ""), String(todo.content ?? ""))));
}
