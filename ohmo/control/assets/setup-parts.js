// What the forms of the set-up are made of: fields, a line that says how it went, and a form that knows what it was made from.

import { button, node } from "./pieces.js";
import { call } from "./wire.js";

/** A labelled field. `extra`: properties of the input; `rows`: several lines; `options`: [value, words] to choose from. */
export function field(id, label, help, { options, ...extra } = {}) {
  const kind = options ? "select" : extra.rows ? "textarea" : "input";
  const input = Object.assign(node(kind, "", ...(options ?? []).map(([value, words]) => Object.assign(node("option", "", words), { value }))), { id, autocomplete: "off", spellcheck: false, ...extra });
  const text = node("label", "", label);
  text.htmlFor = id;
  const hint = node("p", "muted", help);
  hint.id = `${id}-help`;
  if (help) input.setAttribute("aria-describedby", hint.id);
  return Object.assign(node("div", "field", text, input, help ? hint : ""), { input });
}

/** A field for a secret: what was typed is sent once and kept nowhere. */
export function secret(id, label, help, there, reference) {
  const now = there ? `There is one (${reference}); leave this empty to keep it.` : `There is none yet; it goes to .env, readable by you alone.`;
  return field(id, label, `${help ? `${help}. ` : ""}${now}`, { type: "password", autocomplete: "new-password" });
}

const AWAY = 20; // s

export const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** One form of the set-up. A kind of it has `fill(state)` -> the inside, and calls `send`. */
export class Part {
  constructor(view, className = "sheet job-form") {
    this.view = view;
    this.box = node("form", className);
    this.result = node("p", "setup-result");
    this.result.setAttribute("role", "status");
    this.box.addEventListener("input", () => (this.dirty = true));
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
  }

  /** As it stands in the file. What somebody began to type stays. */
  draw(state) {
    if (this.dirty) return;
    this.version = state.version;
    this.box.replaceChildren(...this.fill(state), this.result);
  }

  say(words, tone = "") {
    this.result.className = `setup-result ${tone}`;
    this.result.replaceChildren(...[words].flat());
  }

  /** Does `work` once at a time; what it fails with stands in the form. */
  async once(words, work) {
    if (this.busy) return;
    this.busy = true;
    this.say(words, "busy");
    const held = [...this.box.querySelectorAll("button")];
    for (const one of held) one.disabled = true;
    try {
      await work();
    } catch (error) {
      this.say(error.message, "refused");
      if (error.status === 409) this.result.append(" ", button("Read it again", "choice small", () => this.view.again()));
    } finally {
      for (const one of held) one.disabled = false;
      this.busy = false;
    }
  }

  /** The house is away for a moment when it takes something over. What was written before the line broke is not written twice: its version is another one. */
  async ask(path, body) {
    for (let left = AWAY; ; left -= 1) {
      try {
        return await call(`/api/v1/setup/${path}`, body);
      } catch (error) {
        if (error.status !== 0 || left === 0) throw error;
      }
      this.say("ohmo is away for a moment…", "busy");
      await new Promise((go) => setTimeout(go, 1000));
    }
  }

  test(path, body) {
    return this.once("Testing…", async () => {
      const tried = await this.ask(path, body);
      this.say(tried.fine ? this.fine(tried) : `${tried.text}. Next: ${tried.next}.`, tried.fine ? "good" : "refused");
      this.tried?.(tried);
    });
  }

  /** `clear()`: what was typed and is not shown again. */
  send(path, body) {
    this.view.tell("", "");
    return this.once("Writing…", async () => {
      const before = this.version;
      const { version } = await this.ask(path, { ...body, version: before });
      this.dirty = false;
      for (const input of this.box.querySelectorAll("input[type=password]")) input.value = "";
      this.view.wrote(before, version);
      this.say("Written. ohmo begins anew with it by itself; what runs or waits goes on.", "good");
    });
  }
}
