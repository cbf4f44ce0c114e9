// One conversation: shown as the store has it, with what happens live below it.

import { actions } from "./actions.js";
import { Cards } from "./cards.js";
import { Doing } from "./doing.js";
import { Fold } from "./fold.js";
import { body, icon, node, Transcript } from "./transcript.js";
import { call, Stream } from "./wire.js";

export class Conversation {
  /** `page`: {boxes: {earlier, transcript, now, waiting, empty, stop}, outbox, following, toast(text), link(state), lost(), listed(), stirred(), counted(), settled(), edit(entry)}. */
  constructor(chat, page) {
    this.chat = chat;
    this.page = page;
    this.boxes = page.boxes;
    this.fold = new Fold();
    this.cards = new Cards(page.outbox, chat, page.toast, (entry) => this.redraw(entry));
    this.transcript = new Transcript(this.boxes.transcript, this.cards, { actions: (entry) => actions(entry, { again: (one) => this.again(one), edit: page.edit, takeBack: (one) => this.takeBack(one), steer: (one) => this.steer(one) }) });
    this.thread = null;
    this.turn = "";
    this.doing = new Doing();
    this.preview = "";
    this.stale = "";
    this.asides = [];
    this.queued = new Set(); // keys of messages that wait for their turn
    this.lines = [];
    this.typing = false;
    this.loaded = false;
    this.before = null; // where the page in front of what is shown ends
    this.watch = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && this.settled && this.more(), { root: this.boxes.earlier.parentElement, rootMargin: "300px" });
    for (const name of ["earlier", "transcript", "now", "waiting"]) this.boxes[name].replaceChildren();
    this.stream = new Stream(`chat=${encodeURIComponent(chat)}`, (kind, data) => this.hear(kind, data), (state) => this.linked(state), () => this.fold.unsettled());
    this.drawWaiting();
  }

  close() {
    this.closed = true;
    this.stream.close();
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  hear(kind, data) {
    if (!this.drawing) this.stick = this.page.following.there(); // asked once a frame: it costs a layout
    this.doing.take(kind, data);
    switch (kind) {
      case "earlier":
        this.thread = data.thread;
        this.reach(data.before);
        break;
      case "item":
        this.item(data);
        break;
      case "ready":
        this.loaded = true;
        if (this.thread !== null) this.page.stirred(); // a turn may have ended before the house was heard
        this.queue(this.queued); // it was heard before what it is about
        this.drawNow();
        this.page.settled();
        if (!this.settled) {
          this.page.following.toEnd();
          this.settled = true;
          this.reach(this.before); // only now it is known whether its way up is in sight
        }
        return;
      case "snapshot":
        this.turn = data.turn;
        break;
      case "preview":
        this.preview = this.preview.slice(0, data.keep) + data.text;
        break;
      case "typing":
        this.typing = data.on;
        break;
      case "revised": {
        const entry = this.fold.byRow.get(data.message.replace(/\.0$/, ""));
        if (entry && !entry.closed) this.transcript.show([Object.assign(entry, { text: data.text })]);
        break;
      }
      case "post_state":
        this.transcript.show(this.fold.settle(data));
        break;
      case "notice":
        if (!this.cards.labels.has(data.text)) this.page.toast(data.text);
        break;
      case "turn_started":
        this.turn = data.turn;
        this.page.stirred();
        break;
      case "turn_ended":
        this.page.stirred();
        Object.assign(this, { turn: "", stale: this.preview, typing: false });
        this.asides = this.asides.filter((aside) => aside.turn !== data.turn);
        if (this.thread) this.cards.refresh(this.thread).catch(() => {});
        this.page.listed();
        break;
      case "tool_started":
        this.lines = [`_${data.name}: ${data.summary}_`, `_${data.name}_`];
        break;
      case "tool_refused":
        this.transcript.show(this.fold.refuse(data.call));
        break;
      case "status":
        this.lines = [`_${data.text}_`];
        break;
    }
    this.later();
  }

  /** There is more above, up to `before`; null: what is shown begins at the beginning. */
  reach(before) {
    this.before = before;
    this.watch.disconnect();
    this.boxes.earlier.replaceChildren();
    if (before === null) return;
    const way = node("button", "text", "Show what came before");
    way.type = "button";
    way.addEventListener("click", () => this.more());
    this.boxes.earlier.append(way);
    this.watch.observe(way);
  }

  /** The page in front of what is shown, without moving what is read. */
  async more() {
    if (this.reaching || this.before === null) return;
    this.reaching = true;
    try {
      const answer = await call(`/api/v1/sessions/${encodeURIComponent(this.thread)}?before=${this.before}&limit=200`);
      if (this.closed) return;
      const box = this.boxes.earlier.parentElement;
      const below = box.scrollHeight - box.scrollTop;
      this.fold = this.fold.after(answer.history);
      this.transcript.grow(this.fold.entries);
      box.scrollTop = box.scrollHeight - below;
      this.reach(answer.previous);
    } catch (error) {
      if (!this.closed) this.page.toast(error.message);
    } finally {
      this.reaching = false;
    }
  }

  item(item) {
    const first = this.thread === null;
    this.thread = item.thread;
    if (this.loaded && item.type !== "out_row") this.page.stirred();
    const changed = this.fold.take(item);
    for (const entry of changed) if (this.queued.has(entry.message)) entry.waits = true;
    this.transcript.show(changed);
    for (const entry of changed) {
      if (entry.message) this.page.outbox.seen(entry.message);
      if (entry.kind === "aside") this.asides.push({ turn: item.turn, text: entry.text });
    }
    if (item.type === "out_row") {
      this.stale = this.preview; // what was previewed is durable now, or makes room for it
      if (item.row.outbound.choices.length || item.row.target || this.loaded) this.ask();
    }
    if (first && this.loaded) this.page.listed();
    this.boxes.empty.hidden = true;
  }

  /** What a person said, or what it was that the agent answered, is said once more; its files go along. */
  again(entry) {
    const before = this.fold.entries.slice(0, this.fold.entries.indexOf(entry) + 1);
    const said = before.findLast((one) => one.kind === "person" && !one.origin && !one.gone);
    if (!said) return this.page.toast("What this answers is not shown here; scroll up to it");
    this.page.outbox.say(this.chat, said.text, said.files.map(({ ref, name, media_type, size }) => ({ ref, name, media_type, size })));
    this.page.following.toEnd();
  }

  /** These messages wait for their turn: they are shown so, can be taken back, or be read in the running one. */
  queue(wait) {
    this.queued = wait;
    const entries = this.fold.entries.filter((entry) => entry.message && (entry.waits ?? false) !== wait.has(entry.message));
    for (const entry of entries) entry.waits = wait.has(entry.message);
    if (!entries.length) return;
    const stick = this.page.following.there();
    this.transcript.show(entries);
    if (stick) this.page.following.toEnd();
  }

  takeBack(entry) {
    this.page.outbox.edit(this.chat, entry.message, null);
    entry.gone = true;
    this.transcript.show([entry]);
  }

  /** It keeps its place: when the answer that is being written is the last, it is read before what was said after it. */
  steer(entry) {
    this.page.outbox.edit(this.chat, entry.message, `/steer ${entry.text}`);
  }

  /** Soon, once: which questions are open? */
  ask() {
    clearTimeout(this.asking);
    this.page.counted();
    this.asking = setTimeout(() => this.cards.refresh(this.thread).catch(() => {}), 30);
  }

  redraw(entry) {
    const stick = this.page.following.there();
    const entries = entry ? [entry] : this.fold.entries.filter((other) => other.kind === "agent" && (other.card || this.cards.touched.has(other.row)));
    const focused = document.activeElement?.closest(".words") ? document.activeElement.closest(".turn") : null;
    this.transcript.show(entries.filter((other) => this.transcript.nodes.get(other.id) !== focused));
    if (stick) this.page.following.toEnd();
  }

  linked(state) {
    if (state === "lost") {
      Object.assign(this, { preview: "", turn: "", typing: false });
      this.doing.clear();
      this.drawNow();
      this.page.lost();
    }
    if (state === "open") this.page.outbox.flush();
    this.page.link(state);
  }

  later() {
    if (this.drawing) return;
    this.drawing = true;
    const draw = () => {
      this.drawing = false;
      this.drawNow();
      if (this.stick) this.page.following.toEnd();
    };
    if (document.visibilityState === "hidden") this.timer = setTimeout(draw, 50);
    else this.frame = requestAnimationFrame(draw);
  }

  /** The preview without what is durable already, and without its line about the tool, which is shown below it. Previews and turns come from two sources, so neither resets the other. */
  said() {
    let text = this.preview === this.stale ? "" : this.preview;
    for (const aside of this.asides) if (text.trimStart().startsWith(aside.text)) text = text.trimStart().slice(aside.text.length);
    text = text.trim();
    const line = this.lines.find((end) => text.endsWith(end));
    return line === undefined ? text : text.slice(0, -line.length).trim();
  }

  drawNow() {
    const said = this.said();
    const busy = this.turn !== "" || this.typing;
    const children = [];
    if (said) {
      const words = body(said);
      children.push(node("article", "turn agent streaming", node("div", "inner", words)));
    }
    const doing = this.doing.words;
    if (busy && (!said || doing)) {
      const label = doing || "thinking";
      children.push(node("div", "turn busy", node("span", "dots", node("i", ""), node("i", ""), node("i", "")), node("span", "doing", label)));
    }
    this.boxes.now.replaceChildren(...children);
    this.boxes.transcript.setAttribute("aria-busy", String(busy));
    this.boxes.stop.hidden = !busy;
  }

  drawWaiting() {
    const stick = this.page.following.there();
    const seen = this.fold.byMessage;
    const rows = this.page.outbox.of(this.chat).filter((entry) => !seen.has(entry.key));
    this.boxes.waiting.replaceChildren(...rows.map((entry) => waiting(entry, this.page.outbox)));
    if (rows.length) this.boxes.empty.hidden = true;
    if (stick) this.page.following.toEnd();
  }
}

/** What was typed and is not stored yet. */
function waiting(entry, outbox) {
  const bubble = node("div", "bubble");
  if (entry.body.text) bubble.append(node("p", "plain", entry.body.text));
  for (const file of entry.body.attachments ?? []) bubble.append(node("p", "file", icon("file"), file.name));
  const made = node("article", `turn person pending${entry.refused === undefined ? "" : " failed"}`, bubble);
  made.setAttribute("aria-label", "You, not sent yet");
  if (entry.refused === undefined) made.append(node("span", "stamp", icon("clock"), "sending"));
  else {
    const again = node("button", "text", "Try again");
    again.addEventListener("click", () => outbox.again(entry.key));
    const drop = node("button", "text", "Remove");
    drop.addEventListener("click", () => outbox.remove(entry.key));
    made.append(node("p", "refused", `${entry.refused} `, again, " ", drop));
  }
  return made;
}
