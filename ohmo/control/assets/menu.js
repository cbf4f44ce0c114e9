// A small menu below the button that opened it: arrows walk, Enter chooses, Escape and a click elsewhere close.

import { node } from "./transcript.js";

export class Menu {
  constructor() {
    this.box = node("div", "menu");
    this.box.popover = "auto";
    this.box.setAttribute("role", "menu");
    this.box.addEventListener("keydown", (event) => this.key(event));
    document.body.append(this.box);
  }

  /** `choices`: [words, act, class?]. */
  open(button, choices) {
    this.box.replaceChildren(
      ...choices.map(([words, act, kind]) => {
        const made = node("button", kind ?? "", words);
        made.type = "button";
        made.setAttribute("role", "menuitem");
        made.addEventListener("click", () => {
          this.box.hidePopover();
          button.focus();
          act();
        });
        return made;
      }),
    );
    this.box.setAttribute("aria-label", button.getAttribute("aria-label") ?? "");
    this.box.showPopover();
    const at = button.getBoundingClientRect();
    const { width, height } = this.box.getBoundingClientRect();
    this.box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
    this.box.style.top = `${at.bottom + height + 8 > innerHeight ? Math.max(8, at.top - height - 4) : at.bottom + 4}px`;
    this.box.firstElementChild?.focus();
  }

  key(event) {
    const rows = [...this.box.children];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") event.stopPropagation();
    if (step === undefined) return;
    event.preventDefault();
    rows[(rows.indexOf(document.activeElement) + step + rows.length) % rows.length].focus();
  }
}
