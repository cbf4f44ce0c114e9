// One thread as it was and as it goes on: words, tool calls with their results, what each turn cost.

import { asking } from "./asking.js";
import { Doing } from "./doing.js";
import { Fold } from "./fold.js";
import { button, cost, count, icon, id, node, pill, place } from "./pieces.js";
import { body, Transcript } from "./transcript.js";
import { call, Stream } from "./wire.js";

const PAGE = 200;
const LATE = "run:"; // what the button means under a permission that nobody gave in time

export class Thread {
  constructor(board, thread) {
    this.board = board;
    this.thread = thread;
    this.path = `/api/v1/sessions/${encodeURIComponent(thread)}`;
    this.fold = new Fold();
    this.usage = new Map();
    this.costLines = new Map(); // turn -> {line, text}
    this.said = "";
    this.doing = new Doing();
    this.running = "";
    board.title("Thread");
    this.head = node("div", "thread-head");
    this.earlier = node("div", "more");
    this.box = node("div", "transcript");
    this.box.setAttribute("role", "log");
    this.box.setAttribute("aria-label", "Transcript");
    this.now = node("div", "transcript now");
    this.questions = node("div", "transcript");
    board.body.append(this.head, this.earlier, this.box, this.now, this.questions);
    this.begin().catch((error) => board.failed(board.body, error));
  }

  async begin() {
    const answer = await call(`${this.path}?before=${2 ** 53 - 1}&limit=${PAGE}`);
    if (this.closed) return;
    this.session = answer.session;
    this.board.title(answer.session.title || "Thread");
    this.whole(answer);
    this.board.body.scrollTop = this.board.body.scrollHeight;
    this.ask().catch(() => {});
    this.stream = new Stream(`thread=${encodeURIComponent(this.thread)}`, (kind, data) => this.hear(kind, data), () => {}, () => this.fold.unsettled(), this.fold.items.at(-1)?.seq ?? 0);
  }

  /** Another page in front. */
  whole(answer) {
    this.fold = this.fold.after(answer.history);
    this.previous = answer.previous;
    this.learn(answer.usage);
    this.transcript ??= new Transcript(this.box, { isCard: (entry) => entry.card, controls: (entry) => this.late(entry) }, { linked: this.session.address.channel === "web", states: true });
    this.transcript.grow(this.fold.entries);
    this.earlier.replaceChildren(...(this.previous === null ? [] : [button("Show what came before", "text", () => this.more().catch((error) => this.board.toast(error.message)))]));
    this.costs();
    this.hide();
    this.drawHead();
  }

  /** What nobody allowed in time can be run now, as a new request: the newest of the thread, as `/approve` does there. */
  late(entry) {
    if (entry.closed || !entry.choices.some((choice) => choice.value.startsWith(LATE))) return null;
    const run = button("Run it now", "choice good", async (made) => {
      made.disabled = true;
      try {
        await call("/api/v1/messages", { text: "/approve", thread: place(this.session.address) });
        this.board.toast("It is asked for again and runs first");
      } catch (error) {
        made.disabled = false;
        this.board.toast(error.message);
      }
    }, "play");
    return node("div", "choices", run);
  }

  async more() {
    const body = this.board.body;
    const below = body.scrollHeight - body.scrollTop;
    const answer = await call(`${this.path}?before=${this.previous}&limit=${PAGE}`);
    this.whole(answer);
    body.scrollTop = body.scrollHeight - below;
  }

  learn(rows) {
    for (const row of rows) this.usage.set(`${row.turn} ${row.model}`, row);
  }

  hear(kind, data) {
    const body = this.board.body;
    if (!this.frame) this.stick = body.scrollHeight - body.scrollTop - body.clientHeight < 80; // asked once a frame: it costs a layout
    this.doing.take(kind, data);
    switch (kind) {
      case "item":
        this.transcript.show(this.fold.take(data));
        this.said = "";
        break;
      case "post_state":
        this.transcript.show(this.fold.settle(data));
        break;
      case "snapshot":
        this.running = data.turn;
        this.said = data.text;
        break;
      case "turn_started":
        this.running = data.turn;
        break;
      case "text_delta":
        this.said += data.text;
        break;
      case "text_reset":
        this.said = "";
        break;
      case "tool_refused":
        this.transcript.show(this.fold.refuse(data.call));
        break;
      case "ready": // what ended between the reading and the stream's beginning, or while the line was cut, is not told
        this.spent();
        break;
      case "model_done":
      case "turn_ended":
        this.said = "";
        if (kind === "turn_ended") this.running = "";
        this.spent();
        break;
    }
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
      this.hide();
      if (this.stick) body.scrollTop = body.scrollHeight;
    });
  }

  drawNow() {
    const children = [];
    if (this.said) {
      const words = body(this.said);
      children.push(node("article", "turn agent streaming", node("div", "inner", words)));
    }
    const doing = this.doing.words;
    if (this.running && (!this.said || doing)) children.push(node("div", "turn busy", node("span", "dots", node("i", ""), node("i", ""), node("i", "")), node("span", "doing", doing || "thinking")));
    this.now.replaceChildren(...children);
  }

  /** What the turns cost is counted by the store; asked for soon after something was spent. */
  spent() {
    clearTimeout(this.counting);
    this.counting = setTimeout(async () => {
      const answer = await call(`${this.path}?before=${2 ** 53 - 1}&limit=20`).catch(() => null);
      if (this.closed || answer === null) return; // asked again at the next turn
      this.learn(answer.usage);
      this.session = answer.session;
      this.costs();
      this.drawHead();
    }, 300);
  }

  /** One line behind the last entry of each turn. */
  costs() {
    const turns = new Map();
    for (const row of this.usage.values()) turns.set(row.turn, [...(turns.get(row.turn) ?? []), row]);
    const last = new Map();
    for (const entry of this.fold.entries) if (entry.turn && turns.has(entry.turn) && this.transcript.nodes.get(entry.id)?.isConnected) last.set(entry.turn, entry.id);
    for (const [turn, entry] of last) {
      const rows = turns.get(turn);
      const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
      const text = `${count(sum("input") + sum("cached") + sum("written"))} in · ${count(sum("output"))} out · ${cost(sum("micro_usd"), sum("unpriced"))} · ${sum("calls")} ${sum("calls") === 1 ? "call" : "calls"} · ${[...new Set(rows.map((row) => row.model))].join(", ")}`;
      const shown = this.transcript.nodes.get(entry);
      const old = this.costLines.get(turn);
      if (old?.text === text && shown.nextElementSibling === old.line) continue;
      old?.line.remove();
      const line = node("p", "cost", text);
      line.title = `${sum("cached")} tokens from cache, ${sum("written")} written to it`;
      shown.after(line);
      this.costLines.set(turn, { line, text });
    }
  }

  drawHead() {
    const { address, state } = this.session;
    const rows = [...this.usage.values()];
    const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
    const parts = [pill(address.channel), node("span", "place", place(address)), pill({ idle: "at rest", ready: "waiting its turn", running: "thinking", parked: "asks a person" }[state], state === "idle" ? "quiet" : "busy"), id(this.thread)];
    if (rows.length) parts.push(node("span", "muted", `${count(sum("input") + sum("cached") + sum("written"))} in · ${count(sum("output"))} out · ${cost(sum("micro_usd"), sum("unpriced"))}${this.previous === null ? "" : " in what is shown"}`));
    if (address.channel === "web") {
      const link = node("a", "choice small", icon("chat"), "Open in the chat");
      link.href = `#chat=${encodeURIComponent(address.chat)}`;
      parts.push(link);
    }
    this.head.replaceChildren(...parts);
  }

  async ask() {
    const { approvals } = await call(`/api/v1/approvals?thread=${encodeURIComponent(this.thread)}`);
    if (this.closed) return;
    const text = JSON.stringify(approvals);
    if (text === this.asked) return;
    this.asked = text;
    this.open = new Set(approvals.map((asked) => asked.ask.id));
    this.hide();
    this.questions.replaceChildren(...approvals.map((asked) => asking(asked, this.board.toast, () => this.ask().catch(() => {}))));
  }

  /** An open question stands below, with its buttons; its card in the transcript would say it twice. */
  hide() {
    for (const entry of this.fold.entries) if (entry.card) this.transcript.nodes.get(entry.id)?.toggleAttribute("hidden", this.open?.has(entry.row) ?? false);
  }

  changed(what, thread) {
    if (thread && thread !== this.thread) return;
    if (!this.session) return;
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.ask().catch(() => {}), 100);
  }

  hurry() {
    this.stream?.hurry();
  }

  /** e: all details open, or all closed. */
  key(key) {
    if (key !== "e") return false;
    const details = [...this.box.querySelectorAll("details")];
    const open = details.some((one) => !one.open);
    for (const one of details) one.open = open;
    return true;
  }

  close() {
    this.closed = true;
    this.stream?.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.counting);
    clearTimeout(this.asking);
  }
}
