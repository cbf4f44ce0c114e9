// The message box: grows with its text, keeps drafts per chat, takes files, offers commands.

import { call } from "./wire.js";
import { icon, node } from "./transcript.js";

const DRAFTS = "ohmo.draft.";
const MOST_FILES = 20; // of one message (ohmo/control/chat.py)

/** The draft of a chat; storage may be full or switched off: then it lasts as long as its box. */
function keep(chat, text) {
  try {
    if (text) sessionStorage.setItem(DRAFTS + chat, text);
    else sessionStorage.removeItem(DRAFTS + chat);
  } catch {
    // it stands in the box
  }
}

function kept(chat) {
  try {
    return sessionStorage.getItem(DRAFTS + chat) ?? "";
  } catch {
    return "";
  }
}

/** A small picture of a picture, from the browser's own copy; the sign of a file for any other, for what no browser draws, and for what is already there. */
function thumbnail(entry) {
  if (!(entry.file instanceof Blob && entry.file.type.startsWith("image/"))) return icon("file");
  if (!entry.picture) {
    const url = URL.createObjectURL(entry.file);
    entry.picture = Object.assign(node("img", ""), { alt: "", src: url });
    entry.picture.addEventListener("load", () => URL.revokeObjectURL(url));
    entry.picture.addEventListener("error", () => {
      URL.revokeObjectURL(url);
      entry.picture.replaceWith((entry.picture = icon("file")));
    });
  }
  return entry.picture;
}

export class Composer {
  constructor({ composer: form, draft, send, stop, attach, file, attached, commands }, { say, halt, toast }) {
    Object.assign(this, { form, draft, send, stop, attach, file, attached, commands, say, halt, toast });
    this.files = [];
    this.known = [];
    this.limit = 0; // bytes of a file
    this.longest = Infinity; // characters of a message
    this.picked = -1;
    this.due = false; // Enter was pressed before a chat was open
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    draft.addEventListener("input", () => this.typed());
    draft.addEventListener("keydown", (event) => this.key(event));
    draft.addEventListener("paste", (event) => event.clipboardData.files.length && (event.preventDefault(), this.take(event.clipboardData.files)));
    stop.addEventListener("click", () => this.halt());
    attach.addEventListener("click", () => file.click());
    file.addEventListener("change", () => {
      this.take(file.files);
      file.value = "";
    });
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.take(event.dataTransfer.files);
    });
  }

  /** Another chat: its own draft. What was typed, or sent, before the first one was open is meant for it. */
  turnTo(chat) {
    const early = this.chat === undefined ? this.draft.value : "";
    this.chat = chat;
    this.draft.value = early || kept(chat);
    this.files = [];
    this.drawFiles();
    this.typed();
    if (early && this.due) this.submit();
    this.due = false;
  }

  /** What was said before, to be changed and sent anew; what stands in the box already stays behind it. */
  edit({ text, files }) {
    this.draft.value = [text, this.draft.value].filter(Boolean).join("\n\n");
    for (const { ref, name, media_type, size } of files) {
      if (this.files.length < MOST_FILES) this.files.push({ file: { name }, state: "here", attachment: { ref, name, media_type, size } });
    }
    this.drawFiles();
    this.typed();
    this.draft.focus();
    this.draft.setSelectionRange(text.length, text.length);
  }

  typed() {
    if (this.chat !== undefined) keep(this.chat, this.draft.value);
    this.draft.style.height = "auto";
    this.draft.style.height = `${Math.min(this.draft.scrollHeight, innerHeight * 0.4)}px`;
    this.ready();
    this.offer();
  }

  ready() {
    const busy = this.files.some((file) => file.state === "busy");
    this.send.disabled = busy || (!this.draft.value.trim() && !this.files.some((file) => file.state === "here"));
  }

  key(event) {
    if (event.isComposing || event.keyCode === 229) return; // the Enter that ends a composition; Safari says only the latter
    const offered = [...this.commands.children];
    if (!this.commands.hidden && offered.length) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        this.pick((this.picked + (event.key === "ArrowDown" ? 1 : -1) + offered.length) % offered.length);
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && this.picked >= 0)) {
        event.preventDefault();
        this.complete(offered[Math.max(this.picked, 0)].dataset.name);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        this.commands.hidden = true;
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      this.submit();
    }
  }

  submit() {
    this.ready();
    if (this.send.disabled) return;
    if (this.chat === undefined) {
      this.due = true; // as soon as a chat is open
      return;
    }
    if (this.draft.value.trim().length > this.longest) return this.toFile();
    const attachments = this.files.filter((file) => file.state === "here").map((file) => file.attachment);
    this.say(this.draft.value.trim(), attachments);
    this.draft.value = "";
    this.files = [];
    this.drawFiles();
    this.typed();
  }

  /** More than a model is given of one message: it goes along as a file, whole, and the person says what to do with it. */
  async toFile() {
    const text = this.draft.value;
    await this.take([new File([text], "message.txt", { type: "text/plain" })]);
    if (this.files.at(-1)?.state !== "here" || this.draft.value !== text) return;
    this.draft.value = "";
    this.typed();
    this.draft.focus();
    const [long, most] = [text.length, this.longest].map((number) => number.toLocaleString("en"));
    this.toast(`${long} characters are more than one message holds (${most}): they are attached as message.txt, whole. Say what to do with them, and send`);
  }

  // commands

  offer() {
    const text = this.draft.value;
    const found = /^\/\w*$/.test(text) ? this.known.filter(([name]) => `/${name.replace(/^\//, "")}`.startsWith(text)) : [];
    this.picked = -1;
    this.commands.replaceChildren(
      ...found.map(([name, line]) => {
        const plain = name.replace(/^\//, "");
        const row = node("li", "", node("b", "", `/${plain}`), node("span", "", line));
        row.setAttribute("role", "option");
        row.dataset.name = plain;
        row.addEventListener("mousedown", (event) => {
          event.preventDefault();
          this.complete(plain);
        });
        return row;
      }),
    );
    this.commands.hidden = found.length === 0;
  }

  pick(index) {
    this.picked = index;
    [...this.commands.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === index)));
    this.commands.children[index]?.scrollIntoView({ block: "nearest" });
  }

  complete(name) {
    this.draft.value = `/${name} `;
    this.typed();
    this.draft.focus();
  }

  // files

  /** `list` may be the field's own, which is empty as soon as the field is. */
  async take(list) {
    const entries = [];
    for (const file of [...list]) {
      if (this.limit && file.size > this.limit) this.toast(`${file.name} is too large; at most ${Math.floor(this.limit / 1048576)} MiB go up`);
      else if (this.files.length >= MOST_FILES) this.toast(`${file.name} is not attached; a message takes ${MOST_FILES} files`);
      else {
        const entry = { file, state: "busy" };
        this.files.push(entry);
        entries.push(entry);
      }
    }
    for (const entry of entries) await this.upload(entry);
  }

  async upload(entry) {
    entry.state = "busy";
    this.drawFiles();
    const form = new FormData();
    form.append("file", entry.file, entry.file.name || "picture.png");
    try {
      const { ref, name, media_type, size } = await call("/api/v1/web/files", undefined, { method: "POST", body: form });
      entry.attachment = { ref, name, media_type, size };
      entry.state = "here";
    } catch (error) {
      entry.state = "failed";
      this.toast(`${entry.file.name}: ${error.message}`);
    }
    this.drawFiles();
  }

  drawFiles() {
    this.attached.replaceChildren(
      ...this.files.map((entry) => {
        const remove = node("button", "icon", icon("close"));
        remove.type = "button";
        remove.setAttribute("aria-label", `Remove ${entry.file.name}`);
        remove.addEventListener("click", () => {
          this.files = this.files.filter((other) => other !== entry);
          this.drawFiles();
        });
        const name = node("button", "name", entry.file.name);
        name.type = "button";
        name.disabled = entry.state !== "failed";
        name.addEventListener("click", () => this.upload(entry));
        return node("li", entry.state, thumbnail(entry), name, entry.state === "failed" ? node("span", "again", "try again") : "", remove);
      }),
    );
    this.ready();
  }
}
