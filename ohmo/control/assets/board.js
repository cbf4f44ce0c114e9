// The dashboard beside the chat: one view at a time, fed by the stream of the whole house.

import { Doing } from "./doing.js";
import { Feed } from "./feed.js";
import { button, empty, node } from "./pieces.js";
import { Approvals } from "./view-approvals.js";
import { Channels } from "./view-channels.js";
import { Cron } from "./view-cron.js";
import { Logs } from "./view-logs.js";
import { Messages } from "./view-messages.js";
import { People } from "./view-people.js";
import { Permissions } from "./view-permissions.js";
import { Setup } from "./view-setup.js";
import { Thread } from "./view-thread.js";
import { Threads } from "./view-threads.js";
import { Usage } from "./view-usage.js";

/** A view is made with (board, rest of the path). It may have `changed(what, thread)`, `event(kind, data)`, `tick()`, `key(key)` and `close()`. */
const VIEWS = {
  threads: (board, rest) => (rest.length ? new Thread(board, rest[0]) : new Threads(board)),
  approvals: (board) => new Approvals(board),
  messages: (board, rest) => new Messages(board, rest),
  cron: (board, rest) => new Cron(board, rest),
  people: (board) => new People(board),
  permissions: (board) => new Permissions(board),
  usage: (board) => new Usage(board),
  channels: (board) => new Channels(board),
  logs: (board) => new Logs(board),
  setup: (board) => new Setup(board),
};

export class Board {
  constructor({ title, tools, body, link, toast, counted, lost }) {
    Object.assign(this, { titleBox: title, tools, body, link, toast, counted, lost });
    this.view = null;
    this.live = new Map(); // thread -> what it does now
  }

  static knows(name) {
    return Object.hasOwn(VIEWS, name);
  }

  show(path) {
    this.path = path;
    this.unread = false;
    this.view?.close?.();
    this.view = null;
    this.body.replaceChildren();
    this.tools.replaceChildren();
    this.body.scrollTop = 0;
    this.body.dataset.place = path[0];
    this.feed ??= new Feed((kind, data) => this.hear(kind, data), (state) => this.linked(state));
    this.ticking ??= setInterval(() => document.visibilityState === "visible" && this.view?.tick?.(), 10_000);
    this.view = VIEWS[path[0]](this, path.slice(1).map(decodeURIComponent));
  }

  /** What a thread does now; undefined: nothing. */
  does(thread) {
    const doing = this.live.get(thread);
    return doing && (doing.words || "thinking");
  }

  leave() {
    this.view?.close?.();
    this.view = null;
    this.feed?.close();
    this.feed = undefined;
    clearInterval(this.ticking);
    this.ticking = undefined;
    this.live.clear();
  }

  title(text) {
    this.titleBox.textContent = text;
    document.dispatchEvent(new CustomEvent("titled", { detail: text }));
  }

  hear(kind, data) {
    if (kind === "turn_ended") this.live.delete(data.thread);
    else if (kind === "reset") this.live.clear();
    else if (kind !== "changed") {
      if (!this.live.has(data.thread)) this.live.set(data.thread, new Doing());
      this.live.get(data.thread).take(kind, data);
    }
    if (kind === "changed" || kind === "reset") {
      this.view?.changed?.(data.what ?? "any", data.thread ?? "");
      if (data.what !== "ready") this.counted();
    } else this.view?.event?.(kind, data);
  }

  linked(state) {
    this.link.className = `link ${state}`;
    this.link.textContent = state === "lost" ? "reconnecting…" : "";
    if (state === "lost") this.lost();
    if (state === "open" && this.unread) this.show(this.path);
    else if (state === "open" && this.wasLost) this.view?.changed?.("any", "");
    this.wasLost = state === "lost";
  }

  hurry() {
    this.feed?.hurry();
    this.view?.hurry?.();
  }

  /** What went wrong, where the view would stand, and the way on; it is made again when a daemon that could not be reached is back. */
  failed(box, error) {
    this.unread ||= error.status === 0;
    const title = { 0: "ohmo does not answer", 403: "This is not allowed here", 404: "This is not here" }[error.status] ?? "This could not be read";
    const words = error.status === 0 ? "It may be stopped or starting; this page goes on by itself when it is back. In a terminal: ohmo status" : error.message;
    const again = button("Try again", "choice", () => this.show(this.path), "retry");
    const more = [node("div", "choices", again)];
    if (this.path.length > 1) {
      const up = node("a", "choice", `All ${{ threads: "threads", cron: "jobs" }[this.path[0]] ?? this.path[0]}`);
      up.href = `#/${this.path[0]}`;
      more[0].append(up);
    }
    const made = empty("pulse", title, words, ...more);
    made.setAttribute("role", "alert");
    box.replaceChildren(made);
  }

  /** Moves the focus among rows: j and k, as mail readers do. */
  walk(step) {
    const rows = [...this.body.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
    if (!rows.length) return false;
    const now = rows.indexOf(document.activeElement?.closest?.("[data-row]"));
    const row = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
    row.focus();
    row.scrollIntoView({ block: "nearest" });
    return true;
  }

  key(key) {
    if (key === "j" || key === "k") return this.walk(key === "j" ? 1 : -1);
    if (key === "/") {
      const field = this.tools.querySelector("input[type=search]");
      field?.focus();
      return Boolean(field);
    }
    if (key === "r") {
      this.view?.changed?.("any", "");
      return true;
    }
    return this.view?.key?.(key) ?? false;
  }
}
