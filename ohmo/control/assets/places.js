// Where one is, by the address: a chat (#chat=ID) or a place of the dashboard (#/threads/ID), which is loaded when somebody goes there.

import { newKey } from "./outbox.js";

const CHAT = /^[0-9A-Za-z:_-]{1,64}$/;

const LAST = "ohmo.chat";

/** Where the person was when the page was closed; storage may be switched off. */
function lastChat() {
  try {
    return localStorage.getItem(LAST) ?? undefined;
  } catch {
    return undefined;
  }
}

function keepChat(chat) {
  try {
    localStorage.setItem(LAST, chat);
  } catch {
    // then the page begins with an empty chat
  }
  return chat;
}

export class Places {
  /** `boxes`: {chat, board, places, recent, title, tools, body, link}; `talk(chat)` opens a chat, `leave()` closes the open one, `toast(text)`, `counted()`: what waits for the owner changed, `lost()`: the line was cut. */
  constructor(boxes, { talk, leave, toast, counted, lost }) {
    Object.assign(this, { boxes, talk, leave, toast, counted, lost });
    this.board = null;
    this.loading = null;
    this.last = lastChat(); // the one that one comes back to
  }

  /** ["threads", "ID"] of #/threads/ID; null: the chat is wanted. */
  path() {
    const path = location.hash.startsWith("#/") ? location.hash.slice(2).split("/") : [];
    return path.length && path[0] !== "chat" ? path : null;
  }

  chat() {
    return new URLSearchParams(location.hash.slice(1)).get("chat");
  }

  /** At once: what is typed next is meant for this chat, and the browser tells of a new hash later. */
  go(chat) {
    if (this.chat() !== chat) location.hash = `chat=${chat}`;
    this.turn();
  }

  /** To where the address points. */
  turn() {
    const path = this.path();
    if (path) {
      this.turnToBoard(path);
      return;
    }
    this.board?.leave();
    this.boxes.board.hidden = true;
    this.boxes.chat.hidden = false;
    this.boxes.places.hidden = true;
    this.boxes.recent.hidden = false;
    this.mark("chat");
    const chat = this.chat();
    if (!chat || !CHAT.test(chat)) {
      history.replaceState(null, "", `#chat=${this.last ?? `c${newKey(15)}`}`);
      this.turn();
      return;
    }
    this.last = keepChat(chat);
    this.talk(chat);
  }

  async turnToBoard(path) {
    this.leave();
    this.boxes.chat.hidden = true;
    this.boxes.board.hidden = false;
    this.boxes.places.hidden = false;
    this.boxes.recent.hidden = true;
    this.mark(path[0]);
    try {
      this.loading ??= import("./board.js");
      const { Board } = await this.loading;
      if (this.path()?.join("/") !== path.join("/")) return; // somebody went on meanwhile
      if (!Board.knows(path[0])) return location.replace("#/threads");
      const { title, tools, body, link } = this.boxes;
      this.board ??= new Board({ title, tools, body, link, toast: this.toast, counted: this.counted, lost: this.lost });
      this.board.show(path);
      if (!document.activeElement || document.activeElement === document.body || document.activeElement.closest("#chat")) body.focus({ preventScroll: true });
    } catch {
      this.loading = null;
      this.toast("This part of the page could not be loaded; try again in a moment");
    }
  }

  mark(name) {
    for (const link of this.boxes.places.children) {
      if (link.dataset.place === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
}
