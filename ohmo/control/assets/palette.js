// Ctrl+K: a conversation by its words, a place by its name, a new chat.

import { node } from "./transcript.js";
import { call } from "./wire.js";

const MOST = 8; // conversations

export class Palette {
  /** `places`: [words, act], what there is beside conversations; `go(chat)`. */
  constructor(dialog, places, go) {
    Object.assign(this, { dialog, places, go });
    this.chosen = 0;
    this.field = Object.assign(node("input", ""), { type: "search", placeholder: "Go to a conversation or a place", autocomplete: "off", maxLength: 200 });
    this.field.setAttribute("aria-label", "Go to");
    this.field.setAttribute("role", "combobox");
    this.field.setAttribute("aria-expanded", "true");
    this.field.setAttribute("aria-controls", "palette-list");
    this.list = node("ul", "palette-list");
    this.list.id = "palette-list";
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Where to go");
    dialog.append(this.field, this.list);
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    this.field.addEventListener("input", () => this.look());
    this.field.addEventListener("keydown", (event) => this.key(event));
  }

  open() {
    if (this.dialog.open) return this.dialog.close();
    this.field.value = "";
    this.dialog.showModal();
    this.look();
  }

  look() {
    const words = this.field.value.trim();
    const fits = this.places.filter(([name]) => name.toLowerCase().includes(words.toLowerCase()));
    this.draw(fits);
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const { chats } = await call(`/api/v1/web/chats?limit=${MOST}&text=${encodeURIComponent(words)}`);
        if (words !== this.field.value.trim()) return;
        const found = chats.slice(0, MOST).map((chat) => [chat.title || "New chat", () => this.go(chat.chat)]);
        this.draw(words ? [...found, ...fits] : [...fits, ...found]);
      } catch {
        // the places are there all the same
      }
    }, words ? 150 : 0);
  }

  draw(rows) {
    this.rows = rows;
    this.list.replaceChildren(
      ...rows.map(([words, act], number) => {
        const row = Object.assign(node("li", "", words), { dir: "auto", id: `palette-${number}` });
        row.setAttribute("role", "option");
        row.addEventListener("click", () => this.take(act));
        return row;
      }),
    );
    this.pick(0);
  }

  pick(number) {
    this.chosen = number;
    [...this.list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === number)));
    this.list.children[number]?.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", this.rows.length ? `palette-${number}` : "");
  }

  key(event) {
    if (event.isComposing || event.keyCode === 229) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && this.rows.length) this.pick((this.chosen + step + this.rows.length) % this.rows.length);
    else if (event.key === "Enter" && this.rows.length) this.take(this.rows[this.chosen][1]);
    else return;
    event.preventDefault();
  }

  take(act) {
    this.dialog.close();
    act();
  }
}
