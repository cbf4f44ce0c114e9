// The history of one thread, item by item, into what is shown: messages with their edits, tool calls with their results. Pure.

const ARGUMENT = ["file_path", "command", "pattern", "url", "query", "question", "description", "prompt", "path"];
/** Layers that ended a call which was running, or whose turn a person stopped: it failed, although nobody refused it. */
const ENDED = ["unknown", "stopped"];

/** One line about a tool call. */
export function summary(name, given) {
  if (name === "TodoWrite" && Array.isArray(given.todos)) {
    const done = given.todos.filter((todo) => todo.status === "completed").length;
    return `${done} of ${given.todos.length} done`;
  }
  const key = ARGUMENT.find((candidate) => typeof given[candidate] === "string");
  const text = key === undefined ? Object.values(given).filter((value) => typeof value === "string").join(" ") : given[key];
  const line = text.replace(/\s*\n\s*/g, " ↵ ").trim();
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

const THINKING = /^\s*<think>([\s\S]*?)(?:<\/think>|$)\s*/i;
/** What a local model thought aloud as a quote, as channels/text.py does it. */
const quoted = (text) => text.replace(THINKING, (_, thought) => (thought.trim() ? `${thought.trim().split("\n").map((line) => `> ${line}`.trimEnd()).join("\n")}\n\n` : ""));

const textOf = (blocks) => blocks.filter((block) => block.type === "text").map((block) => block.text).join("\n\n");

export class Fold {
  constructor() {
    this.items = []; // as they came
    this.told = new Map(); // row id -> the state it came to after its item
    this.entries = []; // in the order they are shown
    this.byRow = new Map(); // row id of a post or of any of its edits -> entry
    this.byMessage = new Map(); // what a person said -> entry
    this.byCall = new Map();
    this.early = new Map(); // edits that came before their original
    this.open = new Set(); // ids of posts whose end is not known yet
  }

  /** Takes one item; returns the entries that are new or changed. */
  take(item) {
    this.items.push(item);
    if (item.type === "arrival_info") return this.arrival(item);
    if (item.type === "out_row") return this.post(item);
    return this.step(item);
  }

  /** The same with another page in front: folded anew, because an edit may concern what came before. */
  after(items) {
    const whole = new Fold();
    for (const item of [...items, ...this.items]) whole.take(item);
    for (const told of this.told.values()) whole.settle(told);
    return whole;
  }

  /** A post came to another state; returns what is shown differently now. */
  settle(told) {
    const { row, state, error } = told;
    this.told.set(row, told);
    this.track(row, state);
    const entry = this.byRow.get(row);
    if (!entry) return [];
    Object.assign(entry, { state, failed: state === "dead", why: error ?? "" });
    if (state === "dropped" && entry.row === row && entry.edits === 0) entry.gone = true;
    return [entry];
  }

  track(row, state) {
    if (state === "sent" || state === "dropped") this.open.delete(row);
    else this.open.add(row);
  }

  /** The newest of them; older ones ended in a time nobody looks at. */
  unsettled() {
    return [...this.open].slice(-50);
  }

  add(entry) {
    this.entries.push(entry);
    return [entry];
  }

  arrival(item) {
    const said = item.arrival;
    switch (said.type) {
      case "inbound": {
        const entry = { id: `i${item.seq}`, kind: "person", turn: item.turn, message: said.message, text: said.text, at: said.at, seq: item.seq, thread: item.thread, files: said.attachments, command: item.kind === "command", refused: item.ending === "refused" && item.kind === "message" ? item.reason : "" }; // a failure, and what became of a command, is said below
        this.byMessage.set(said.message, entry);
        const edit = this.early.get(said.message);
        if (edit) this.change(entry, edit);
        return this.add(entry);
      }
      case "edited": {
        const entry = this.byMessage.get(said.message);
        if (!entry) this.early.set(said.message, said);
        return entry ? this.change(entry, said) : [];
      }
      case "wake":
        return this.add({ id: `i${item.seq}`, kind: "person", turn: item.turn, text: said.prompt, at: said.at, origin: said.origin, files: [], seq: item.seq, thread: item.thread, command: item.kind === "command" });
      default:
        return []; // what a button did is shown by the card's own edit
    }
  }

  change(entry, said) {
    entry.gone = said.text === null;
    entry.text = said.text ?? "";
    entry.edited = true;
    return [entry];
  }

  post(item) {
    this.track(item.row.id, item.state);
    if (item.state === "dropped") return [];
    const { row } = item;
    const shown = { state: item.state, why: item.error ?? "", text: row.outbound.text, choices: row.outbound.choices, plain: row.outbound.plain, failed: item.state === "dead" };
    const old = row.target === null ? undefined : this.byRow.get(row.target);
    if (old) {
      Object.assign(old, shown, { edits: old.edits + 1, card: old.card || row.outbound.card, closed: (old.closed || old.choices.length > 0) && shown.choices.length === 0 });
      if (row.outbound.files.length) Object.assign(old, { files: row.outbound.files, seq: item.seq });
      this.byRow.set(row.id, old);
      return [old];
    }
    const entry = { id: `o${item.seq}`, kind: "agent", turn: item.turn, row: row.id, notice: row.kind === "notice", at: item.started, seq: item.seq, thread: item.thread, files: row.outbound.files, edits: 0, card: row.outbound.card, ...shown };
    this.byRow.set(row.id, entry);
    return this.add(entry);
  }

  step(item) {
    const step = item.step;
    switch (step.type) {
      case "model_step": {
        const calls = step.blocks.filter((block) => block.type === "tool_call");
        if (!calls.length) return []; // the answer is a post of its own
        const changed = [];
        const text = quoted(textOf(step.blocks)).trim();
        if (text) changed.push(...this.add({ id: `s${item.seq}`, kind: "aside", turn: item.turn, text, at: item.at }));
        for (const call of calls) {
          const entry = { id: `c${call.id}`, kind: "tool", turn: item.turn, name: call.name, summary: summary(call.name, call.arguments), given: call.arguments, state: "asked", result: null, at: item.at };
          this.byCall.set(call.id, entry);
          changed.push(...this.add(entry));
        }
        return changed;
      }
      case "call_started":
        return this.call(step.call, { state: "running" });
      case "call_result": {
        const { call, error, text, refused } = step.result;
        let state = error ? "failed" : "done";
        if (refused && !ENDED.includes(refused)) state = "refused";
        return this.call(call, { state, result: text });
      }
      case "compaction":
        return this.add({ id: `s${item.seq}`, kind: "line", text: "Earlier messages were summarised for the model; nothing of the conversation is lost", at: item.at });
      default:
        return [];
    }
  }

  /** A call ends without being run; its result, which says why, follows. */
  refuse(id) {
    return this.call(id, { state: "refused" });
  }

  call(id, change) {
    const entry = this.byCall.get(id);
    if (!entry) return [];
    Object.assign(entry, change);
    return [entry];
  }
}
