// Keys for the whole page, and the list of them.

import { node } from "./transcript.js";

const PLACES = { c: ["chat", "Chat"], t: ["threads", "Threads"], a: ["approvals", "Approvals"], m: ["messages/inbox", "Messages"], d: ["messages/dead", "Dead letters"], p: ["people", "People"], s: ["cron", "Cron (schedule)"], u: ["usage", "Usage"], h: ["channels", "Channels (health)"], l: ["logs", "Logs"], r: ["permissions", "Permissions (rules)"], o: ["setup", "Set-up (options)"] };
const LINES = [
  ["?", "This list"],
  ["n", "New chat"],
  ["Ctrl+K", "Go to a conversation or a place"],
  ["j / k", "Next, previous row"],
  ["Enter", "Open the row"],
  ["1 … 9", "Answer the question in focus"],
  ["/", "Search (threads, messages, logs)"],
  ["r", "Read again"],
  ["e", "Open or close all details of a thread"],
  [".", "Colours: system, light, dark"],
  ["Esc", "Close; in the chat: stop what runs"],
];
export const GO = Object.values(PLACES);
const PAIR = 1200; // ms between g and its letter

export class Keyboard {
  /** `view(key)`: the dashboard's own keys; says whether it took the key. */
  constructor({ dialog, go, view, theme, newChat, find, closed }) {
    Object.assign(this, { dialog, go, view, theme, newChat, find, closed });
    this.since = 0;
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => dialog.replaceChildren());
  }

  begin(help) {
    help.addEventListener("click", () => this.show());
    addEventListener("keydown", (event) => this.take(event));
  }

  show() {
    if (this.dialog.open) return;
    this.fill();
    this.dialog.showModal();
  }

  take(event) {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k" && !this.closed()) {
      event.preventDefault(); // also in a text field: the browser's own Ctrl+K leads out of the page
      this.find();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented || this.closed()) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    if (this.act(event.key)) event.preventDefault();
  }

  act(key) {
    const paired = Date.now() - this.since < PAIR;
    this.since = 0;
    if (paired && PLACES[key]) {
      this.go(PLACES[key][0]);
      return true;
    }
    switch (key) {
      case "g":
        this.since = Date.now();
        return true;
      case "?":
        this.show();
        return true;
      case "n":
        this.newChat();
        return true;
      case ".":
        this.theme();
        return true;
      default:
        return this.view(key);
    }
  }

  fill() {
    const rows = [...Object.entries(PLACES).map(([key, [, words]]) => [`g ${key}`, words]), ...LINES];
    const title = node("h2", "", "Keyboard shortcuts");
    title.id = "keys-title";
    const close = node("button", "choice", "Close");
    close.type = "button";
    close.addEventListener("click", () => this.dialog.close());
    const list = node("dl", "keys-list", ...rows.map(([keys, words]) => node("div", "", node("dt", "", ...keys.split(" ").map((key) => (/^[/…]$/.test(key) && keys !== "/" ? ` ${key} ` : node("kbd", "", key)))), node("dd", "", words))));
    this.dialog.replaceChildren(title, list, node("p", "muted", "In a text field the keys write."), close);
  }
}
