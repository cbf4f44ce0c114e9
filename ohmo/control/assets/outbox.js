// What was typed and is not yet known to be stored. It survives reloads and restarts; its key makes sending it again harmless.

import { call } from "./wire.js";

const STORE = "ohmo.outbox";
const LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";

export function newKey(length = 24) {
  return Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => LETTERS[byte % 36]).join("");
}

export class Outbox {
  /** `changed()` is called when an entry appears, is stored, or is refused. */
  constructor(changed) {
    this.changed = changed;
    this.wait = 500;
    this.stored = []; // accepted, but not seen in the history yet
    this.busy = false;
    addEventListener("storage", (event) => event.key === STORE && this.changed());
    addEventListener("online", () => this.flush());
  }

  entries() {
    try {
      return JSON.parse(localStorage.getItem(STORE) ?? "[]");
    } catch {
      return [];
    }
  }

  write(entries) {
    try {
      localStorage.setItem(STORE, JSON.stringify(entries));
    } catch {
      // Storage is full or switched off: the entry is still sent now, it only would not survive a reload.
    }
  }

  of(chat) {
    const waiting = this.entries();
    const keys = new Set(waiting.map((entry) => entry.key));
    return [...this.stored.filter((entry) => !keys.has(entry.key)), ...waiting].filter((entry) => entry.chat === chat && entry.kind === "messages");
  }

  say(chat, text, attachments = []) {
    return this.put({ chat, kind: "messages", key: newKey(), body: { text, ...(attachments.length ? { attachments } : {}) } });
  }

  press(chat, message, choice) {
    return this.put({ chat, kind: "answers", key: newKey(), body: { message, choice } });
  }

  /** What was said says something else now; null: it is taken back. */
  edit(chat, message, text) {
    return this.put({ chat, kind: "edits", key: newKey(), body: { message, text } });
  }

  put(entry) {
    this.write([...this.entries(), entry]);
    this.changed();
    this.flush();
    return entry.key;
  }

  remove(key) {
    this.write(this.entries().filter((entry) => entry.key !== key));
    this.changed();
  }

  again(key) {
    this.write(this.entries().map((entry) => (entry.key === key ? { ...entry, refused: undefined } : entry)));
    this.changed();
    this.flush();
  }

  /** The history has it. */
  seen(key) {
    const had = this.stored.length;
    this.stored = this.stored.filter((entry) => entry.key !== key);
    const entries = this.entries();
    if (entries.some((entry) => entry.key === key)) this.write(entries.filter((entry) => entry.key !== key));
    else if (had === this.stored.length) return;
    this.changed();
  }

  /** One after the other, in the order they were typed. */
  async flush() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    try {
      for (let entry = this.next(); entry; entry = this.next()) {
        try {
          await call(`/api/v1/web/chats/${encodeURIComponent(entry.chat)}/${entry.kind}`, { ...entry.body, key: entry.key });
          this.stored.push(entry);
          this.wait = 500;
          this.remove(entry.key);
        } catch (error) {
          const refused = error.status >= 400 && error.status < 500 && ![401, 408, 425, 429].includes(error.status);
          if (!refused) throw error;
          this.write(this.entries().map((other) => (other.key === entry.key ? { ...other, refused: error.message } : other)));
          this.changed();
        }
      }
    } catch {
      this.timer = setTimeout(() => this.flush(), this.wait);
      this.wait = Math.min(this.wait * 1.7, 5000);
    } finally {
      this.busy = false;
    }
  }

  next() {
    return this.entries().find((entry) => entry.refused === undefined);
  }
}
