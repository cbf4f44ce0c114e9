// Questions that wait for a person: permission cards with buttons, and questions with choices or free words.

import { askedCall } from "./asked-call.js";
import { node, when } from "./pieces.js";
import { body } from "./transcript.js";
import { call } from "./wire.js";

/** `open`: id -> Asked, as the house has it now; `touched`: ids that are open or were until now. */
export class Cards {
  constructor(outbox, chat, toast, changed) {
    this.outbox = outbox;
    this.chat = chat;
    this.toast = toast;
    this.changed = changed;
    this.open = new Map();
    this.touched = new Set();
    this.pressed = new Map();
    this.labels = new Set(); // of all buttons: the platform's courtesy of repeating one is of no use here, the card itself says it
  }

  async refresh(thread) {
    const { approvals } = await call(`/api/v1/approvals?thread=${encodeURIComponent(thread)}`);
    const before = this.open;
    this.open = new Map(approvals.map((asked) => [asked.ask.id, asked]));
    this.touched = new Set([...before.keys(), ...this.open.keys()]);
    this.changed();
  }

  /** A question without choices is known as one only while it is open; closed, it is a message like any other. */
  isCard(entry) {
    return entry.card || this.open.has(entry.row);
  }

  /** What is asked, as a person looks at it: a change as one, a command once, and all the words of the house below; null: its words have to do. */
  asked(entry) {
    const question = this.open.get(entry.row)?.ask;
    if (!question || entry.closed || question.question.kind !== "permission") return null;
    const shown = askedCall(question.question);
    if (shown === null) return null;
    const all = node("details", "asked-words", node("summary", "", "All it says, word for word"), body(entry.text));
    return node("div", "md", ...shown, all);
  }

  /** The controls under a card, or null when there is nothing to press (any more). */
  controls(entry) {
    const asked = this.open.get(entry.row);
    if (entry.closed || (!entry.choices.length && !asked)) return null;
    const box = document.createElement("div");
    box.className = "choices";
    const pressed = this.pressed.get(entry.row);
    for (const choice of entry.choices) {
      this.labels.add(choice.label);
      const button = document.createElement("button");
      button.type = "button";
      button.className = `choice ${choice.style}`;
      button.textContent = choice.label;
      button.disabled = pressed !== undefined;
      if (pressed === choice.value) button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => this.press(entry, choice.value));
      box.append(button);
    }
    if (asked?.ask.question.kind === "question") box.append(this.words(entry));
    if (asked?.deadline) box.append(node("p", "muted deadline", when(asked.deadline, "Ends "), ": without an answer it is not run"));
    return box;
  }

  press(entry, value) {
    if (this.pressed.has(entry.row)) return;
    this.pressed.set(entry.row, value);
    this.outbox.press(this.chat, `${entry.row}.0`, value);
    this.changed(entry);
  }

  words(entry) {
    const form = document.createElement("form");
    form.className = "words";
    const field = document.createElement("input");
    field.type = "text";
    field.placeholder = entry.choices.length ? "or say it in your own words" : "Your answer";
    field.setAttribute("aria-label", "Answer in your own words");
    const send = document.createElement("button");
    send.type = "submit";
    send.className = "choice good";
    send.textContent = "Answer";
    form.append(field, send);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const word = field.value.trim();
      if (!word) return;
      send.disabled = true;
      try {
        await call(`/api/v1/approvals/${encodeURIComponent(entry.row)}`, { verdict: "allowed", word });
        this.pressed.set(entry.row, word);
      } catch (error) {
        send.disabled = false;
        this.toast(error.message);
      }
    });
    return form;
  }
}
