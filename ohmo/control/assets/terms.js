// What holds in the open conversation, below the message box: model, mode, what it cost; and which messages still wait for their turn.

import { Menu } from "./menu.js";
import { cost, count } from "./pieces.js";
import { node } from "./transcript.js";
import { call } from "./wire.js";

const MODES = [["default", "Asks", "asks before it changes anything"], ["plan", "Plan only", "changes nothing"], ["full_auto --i-know", "Full auto", "asks about nothing for 8 hours; only the sandbox holds it"]];

export class Terms {
  /** `box`: where they stand; `form`: marked while nothing is asked; `say(line)`: a command of the person. */
  constructor({ terms, composer }, say) {
    Object.assign(this, { box: terms, form: composer, say });
    this.menu = new Menu();
    this.asked = 0; // questions to the house
    this.drawn = 0; // the newest that was answered
    this.mode = this.chip("Mode", () => MODES.map(([name, words, line]) => [`${words}: ${line}`, () => say(`/mode ${name}`)]));
    this.model = this.chip("Model", () => this.held.models.map((name) => [name, () => say(`/model ${name}`)]));
    this.cost = node("span", "cost-now");
    terms.append(this.model, this.mode, this.cost);
  }

  chip(label, choices) {
    const made = node("button", "chip");
    made.type = "button";
    made.dataset.label = label;
    made.setAttribute("aria-haspopup", "menu");
    made.addEventListener("click", () => this.menu.open(made, choices()));
    return made;
  }

  /** Of another chat; `told(wait)`: the keys of messages that wait. */
  turnTo(chat, told) {
    Object.assign(this, { chat, told });
    this.read();
  }

  /** Soon, once. */
  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 300);
  }

  async read() {
    const chat = this.chat;
    const asked = ++this.asked;
    try {
      const held = await call(`/api/v1/web/chats/${encodeURIComponent(chat)}`);
      if (chat !== this.chat || asked < this.drawn) return; // a newer answer came first
      this.held = held;
      this.drawn = asked;
      this.draw();
      this.told(new Set(held.wait));
    } catch {
      // what stands there stays until the house answers again
    }
  }

  draw() {
    const { model, mode, micro_usd, unpriced, tokens } = this.held;
    const words = MODES.find(([name]) => name.split(" ")[0] === mode)?.[1] ?? mode;
    this.label(this.mode, words);
    this.label(this.model, model);
    this.model.disabled = this.held.models.length < 2;
    this.cost.textContent = tokens ? `${cost(micro_usd, unpriced)} · ${count(tokens)} tokens` : "";
    this.form.classList.toggle("full-auto", mode === "full_auto");
    this.box.hidden = false;
  }

  label(chip, words) {
    chip.textContent = words;
    chip.setAttribute("aria-label", `${chip.dataset.label}: ${words}`);
    chip.title = chip.getAttribute("aria-label");
  }
}
