// The list of this browser's conversations in the side bar: all of them by scrolling, pinned ones first; looked for, renamed, pinned, put away and deleted here.

import { save } from "./export.js";
import { Menu } from "./menu.js";
import { Paged } from "./paged.js";
import { icon, search, sure } from "./pieces.js";
import { node } from "./transcript.js";
import { call } from "./wire.js";

export class Chats {
  /** `boxes`: {list, title, find, shelf}; `here()`: the chat that is open, or undefined; `read(answer)`: what the house said beside the chats;
      `turned()`: the open one was chosen again; `left()`: the open one was deleted; `toast(text)`. */
  constructor({ list, title, find, shelf }, { here, read, turned, left, toast }) {
    Object.assign(this, { box: list, title, shelfButton: shelf, here, read, turned, left, toast });
    this.words = "";
    this.shelf = "open";
    this.titles = new Map(); // chat -> what it is called, as far as it was read
    this.menu = new Menu();
    find.append(search("Words in conversations", "Search", (words) => this.turn({ words }), list));
    shelf.addEventListener("click", () => this.turn({ shelf: this.shelf === "open" ? "archived" : "open" }));
    this.begin();
  }

  turn(change) {
    Object.assign(this, change);
    this.shelfButton.textContent = this.shelf === "open" ? "Archived" : "Back to all conversations";
    this.rows.close();
    this.box.replaceChildren();
    this.begin();
    return this.refresh();
  }

  begin() {
    const nothing = () => node("p", "muted", this.words ? "No conversation has these words." : this.shelf === "open" ? "" : "Nothing is archived.");
    this.rows = new Paged(this.box, { label: "Conversations", scroll: this.box, fetch: (after, limit) => this.fetch(after, limit), key: (chat) => chat.chat, draw: (chat) => this.row(chat), nothing });
    this.rows.list.classList.add("chats");
    this.watched = false;
  }

  async fetch(after, limit) {
    const answer = await call(`/api/v1/web/chats?limit=${limit}&shelf=${this.shelf}&text=${encodeURIComponent(this.words)}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    this.read(answer);
    for (const chat of answer.chats) this.titles.set(chat.chat, chat.title);
    return { items: answer.chats, next: answer.next };
  }

  async refresh() {
    try {
      if (this.watched) await this.rows.refresh();
      else {
        this.watched = true;
        await this.rows.refresh();
      }
      this.draw();
    } catch {
      // the list stays as it is; it is read again soon
    }
  }

  /** Which one is open, in the list and above the conversation. */
  draw() {
    const here = this.here();
    for (const [chat, { row }] of this.rows.rows) {
      const link = row.querySelector("a");
      if (chat === here) link?.setAttribute("aria-current", "page");
      else link?.removeAttribute("aria-current");
    }
    const title = this.titles.get(here) || "New chat";
    this.title.textContent = title;
    if (here) document.dispatchEvent(new CustomEvent("titled", { detail: title === "New chat" ? "" : title }));
  }

  row(chat) {
    const title = chat.title || "New chat";
    const link = node("a", "", Object.assign(node("span", "", title), { dir: "auto" }));
    link.href = `#chat=${encodeURIComponent(chat.chat)}`;
    if (chat.shelf === "pinned") link.prepend(icon("pin"));
    if (chat.state === "parked") link.append(Object.assign(node("i", "dot busy"), { title: "asks you something" }));
    if (chat.chat === this.here()) link.setAttribute("aria-current", "page");
    link.addEventListener("click", () => chat.chat === this.here() && this.turned());
    const more = node("button", "icon tiny more-of", icon("dots"));
    more.type = "button";
    more.setAttribute("aria-label", `More about ${title}`);
    more.setAttribute("aria-haspopup", "menu");
    const row = node("li", "", link, more);
    more.addEventListener("click", () => this.menu.open(more, this.choices(chat, row)));
    return row;
  }

  choices(chat, row) {
    const put = (change, said) => () => this.put(chat, change, said);
    const back = chat.shelf === "archived";
    return [
      ["Rename", () => this.rename(chat, row)],
      ...(back ? [] : [chat.shelf === "pinned" ? ["Unpin", put({ shelf: "open" }, "unpinned")] : ["Pin", put({ shelf: "pinned" }, "pinned")]]),
      back ? ["Take back from the archive", put({ shelf: "open" }, "back among the others")] : ["Archive", put({ shelf: "archived" }, "archived")],
      ["Export as Markdown", () => save(chat.thread, chat.title || "New chat").catch((error) => this.toast(error.message))],
      ["Delete", () => this.delete(chat), "danger"],
    ];
  }

  async put(chat, change, said) {
    try {
      await call(`/api/v1/web/chats/${encodeURIComponent(chat.chat)}`, change);
      if (said) this.toast(`“${chat.title || "New chat"}” is ${said}`);
    } catch (error) {
      this.toast(error.message);
    }
    await this.refresh();
  }

  rename(chat, row) {
    const field = Object.assign(node("input", "rename"), { value: chat.title, maxLength: 200 });
    field.setAttribute("aria-label", "New name");
    const put = row.replaceChildren.bind(row);
    const before = [...row.childNodes];
    put(field);
    field.select();
    const end = (save) => {
      if (!row.contains(field)) return;
      put(...before);
      row.querySelector("a").focus();
      if (save && field.value.trim() !== chat.title) this.put(chat, { title: field.value.trim() });
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === "Enter" || event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        end(event.key === "Enter");
      }
    });
    field.addEventListener("blur", () => end(true));
  }

  async delete(chat) {
    if (!(await sure(`Delete “${chat.title || "New chat"}”? Everything said in it is gone for good.`, "Delete it"))) return;
    try {
      await call(`/api/v1/web/chats/${encodeURIComponent(chat.chat)}/delete`, {});
      this.titles.delete(chat.chat);
      if (chat.chat === this.here()) this.left();
    } catch (error) {
      this.toast(error.message);
    }
    await this.refresh();
  }
}
