// The log, newest first: filtered by the house, followed live from the place where this page was cut off.

import { button, chooser, copy, empty, node, search } from "./pieces.js";
import { exact, zone } from "./times.js";
import { call } from "./wire.js";

const MOST = 2000; // lines the page keeps
const LEVELS = [["debug", "All levels"], ["info", "Info and graver"], ["warning", "Warnings and errors"], ["error", "Errors only"]];
const clock = new Intl.DateTimeFormat(undefined, { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const OWN = new Set(["place", "at", "level", "event", "exception"]);

export class Logs {
  constructor(board) {
    this.board = board;
    this.level = "debug";
    this.words = "";
    this.following = true;
    board.title("Logs");
    this.list = node("ul", "log-lines");
    this.list.setAttribute("aria-label", "Log");
    this.blank = node("div", "");
    this.end = node("div", "more");
    board.body.append(node("p", "muted log-zone", `Times are those of ${zone()}.`), this.list, this.blank, this.end);
    const field = search("Words that stand in the line", "Filter", (words) => {
      if (this.closed) return;
      this.words = words;
      this.begin();
    }, board.body);
    this.pause = button("Pause", "choice small", () => this.follow(!this.following), "pause");
    board.tools.replaceChildren(field, chooser("Level", LEVELS, this.level, (value) => {
      this.level = value;
      this.begin();
    }), this.pause);
    this.begin();
  }

  get query() {
    return `level=${this.level}&q=${encodeURIComponent(this.words)}`;
  }

  async begin() {
    this.source?.close();
    clearTimeout(this.timer);
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const answer = await call(`/api/v1/logs?${this.query}&limit=200`);
      if (this.closed || asked !== this.asked) return;
      this.list.replaceChildren(...answer.logs.map((entry) => this.line(entry)));
      this.next = answer.next;
      this.place = answer.since;
      this.settle();
      if (this.following) this.listen();
    } catch (error) {
      if (!this.closed) this.board.failed(this.blank, error);
    }
  }

  listen() {
    this.source?.close();
    const source = new EventSource(`/api/v1/logs/events?${this.query}${this.place ? `&since=${encodeURIComponent(this.place)}` : ""}`);
    this.source = source;
    this.wait ??= 250;
    source.addEventListener("log", (event) => {
      if (this.source !== source) return;
      this.place = event.lastEventId;
      this.list.prepend(this.line(JSON.parse(event.data)));
      while (this.list.childElementCount > MOST) this.list.lastElementChild.remove();
      this.settle();
    });
    source.addEventListener("at", (event) => this.source === source && (this.place = event.lastEventId));
    source.addEventListener("ready", () => (this.wait = 250));
    source.addEventListener("gap", () => this.source === source && this.list.prepend(node("li", "log-gap", "Lines are missing here: the log was rotated meanwhile")));
    source.addEventListener("error", () => {
      if (this.source !== source) return;
      source.close();
      this.timer = setTimeout(() => this.following && !this.closed && this.listen(), this.wait);
      this.wait = Math.min(this.wait * 1.7, 5000);
    });
  }

  follow(on) {
    this.following = on;
    this.pause.querySelector("span").textContent = on ? "Pause" : "Follow";
    this.pause.querySelector("use").setAttribute("href", on ? "#i-pause" : "#i-play");
    if (on) this.listen();
    else {
      this.source?.close();
      this.source = null;
    }
  }

  async older() {
    const { logs, next } = await call(`/api/v1/logs?${this.query}&limit=200&after=${encodeURIComponent(this.next)}`);
    this.list.append(...logs.map((entry) => this.line(entry)));
    this.next = next;
    this.settle();
  }

  line(entry) {
    const rest = Object.entries(entry).filter(([key, value]) => !OWN.has(key) && value !== null && value !== "");
    const words = rest.map(([key, value]) => node("span", "log-field", node("b", "", key), typeof value === "string" ? value : JSON.stringify(value)));
    const known = !Number.isNaN(Date.parse(entry.at)); // a torn line has no time
    const time = node("time", "", known ? clock.format(new Date(entry.at)) : "?");
    if (known) Object.assign(time, { dateTime: entry.at, title: exact(entry.at) });
    const made = node("li", `log-line level-${entry.level}`, time, node("span", "log-level", entry.level ?? ""), node("span", "log-event", String(entry.event)), node("span", "log-fields", ...words), copy(JSON.stringify({ ...entry, place: undefined }), "Copy the line"));
    if (entry.exception) made.append(node("pre", "log-trace", entry.exception));
    return made;
  }

  settle() {
    this.blank.replaceChildren(...(this.list.childElementCount ? [] : [this.words || this.level !== "debug" ? empty("search", "Nothing fits", "No line of the log has these words and this gravity.") : empty("log", "The log is empty", "It fills as soon as something happens.")]));
    this.end.replaceChildren(...(this.next ? [button("Older lines", "text", () => this.older().catch((error) => this.board.toast(error.message)))] : []));
  }

  hurry() {
    if (this.following && (!this.source || this.source.readyState === 2)) this.listen();
  }

  close() {
    this.closed = true;
    this.source?.close();
    clearTimeout(this.timer);
  }
}
