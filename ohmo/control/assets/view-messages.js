// The mailboxes: what came in, what goes out, and what ended as a dead letter; each says why.

import { Paged } from "./paged.js";
import { button, chooser, empty, facts, id, moment, node, pill, place, relative, rowTitle, search, tabs, when } from "./pieces.js";
import { houseNow } from "./times.js";
import { call } from "./wire.js";

const BOXES = [
  ["inbox", "Inbox"],
  ["outbox", "Outbox"],
  ["dead", "Dead letters"],
];
const STATES = {
  inbox: [["", "All states"], ["waiting", "waiting"], ["taken", "taken"], ["answered", "answered"], ["merged", "merged"], ["noted", "noted, not answered"], ["refused", "refused"], ["stopped", "stopped"], ["superseded", "superseded"], ["dead", "dead"]],
  outbox: [["", "All states"], ["ready", "ready"], ["sending", "sending"], ["sent", "sent"], ["dropped", "dropped"], ["dead", "dead"]],
};
const TONES = { waiting: "busy", taken: "busy", ready: "busy", sending: "busy", dead: "bad", answered: "good", sent: "good", merged: "good" };
const WHY = {
  waiting: "It is stored and waits for its turn.",
  taken: "A turn works on it now.",
  answered: "It was answered.",
  merged: "It was answered together with another message.",
  noted: "It was not addressed to ohmo, or it only concerns another message; it was read and needed no answer.",
  refused: "It was refused.",
  stopped: "Its person stopped it.",
  superseded: "It was deleted or replaced by a newer version before its turn, or tried again as a new message.",
  dead: "It could not be answered.",
};
const SAID = { ready: "It waits for its next try.", sending: "It is being sent; whether the platform has it is not known yet.", sent: "The platform has it.", dropped: "It was given up: a person dropped it, or something newer took its place before it was sent.", dead: "It could not be delivered." };

function why(said, reason) {
  return node("p", "why", reason ? `${said.replace(/\.$/, "")}: ${reason}` : said);
}

export class Messages {
  constructor(board, [box = "inbox"]) {
    this.board = board;
    this.box = BOXES.some(([key]) => key === box) ? box : "inbox";
    board.title("Messages");
    this.words = "";
    const field = search("Words in messages", "Search", (words) => {
      if (this.closed) return;
      this.words = words;
      this.again();
    }, board.body);
    this.state = "";
    const states = STATES[this.box] ? [chooser("State", STATES[this.box], "", (value) => {
      this.state = value;
      this.again();
    })] : [];
    board.tools.replaceChildren(field, ...states, tabs("Mailbox", BOXES, this.box, (key) => (location.hash = `#/messages/${key}`)));
    this.begin();
  }

  again() {
    if (this.closed) return;
    for (const list of this.lists) list.close();
    this.board.body.replaceChildren();
    this.begin();
  }

  begin() {
    this.lists = [];
    const state = this.box === "dead" ? "dead" : this.state;
    if (this.box !== "outbox") this.add("inbox", state);
    if (this.box !== "inbox") this.add("outbox", state);
  }

  add(which, state) {
    const board = this.board;
    const box = node("section", "box-of-rows");
    if (this.box === "dead") box.append(node("h2", "row-head", which === "inbox" ? "Not answered" : "Not delivered"));
    board.body.append(box);
    const list = new Paged(box, {
      label: which === "inbox" ? "Messages that came in" : "Messages that go out",
      scroll: board.body,
      fetch: async (after, limit) => {
        const answer = await call(`/api/v1/${which}?limit=${limit}${state ? `&state=${state}` : ""}&text=${encodeURIComponent(this.words)}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
        return { items: answer[which], next: answer.next };
      },
      key: (item) => (which === "inbox" ? `${item.thread}/${item.seq}` : item.row.id),
      draw: (item) => node("li", "", which === "inbox" ? this.arrival(item) : this.post(item)),
      nothing: () => this.nothing(which),
    });
    list.refresh().catch((error) => board.failed(box, error));
    this.lists.push(list);
  }

  nothing(which) {
    if (this.state && !this.words) return node("p", "muted pad", `No message is ${STATES[this.box].find(([key]) => key === this.state)[1]}.`);
    if (this.words) return node("p", "muted pad", "No message has these words.");
    if (this.box === "dead") return node("p", "muted pad", which === "inbox" ? "Every message got its answer." : "Every answer was delivered.");
    return which === "inbox" ? empty("tray", "Nothing came in yet", "Messages of all channels are listed here from the moment they are stored.") : empty("tray", "Nothing went out yet", "Answers and notices are listed here until the platform has them, and after.");
  }

  arrival(item) {
    const state = item.ending ?? item.state;
    const said = item.arrival;
    const words = said.text ?? said.prompt ?? (said.choice !== undefined ? `pressed ${said.choice}` : said.text === null ? "deleted a message" : (said.emoji ?? item.kind));
    const at = said.address ?? said.place;
    const name = said.person?.name || item.person;
    const buttons = [];
    if (item.ending === "dead") buttons.push(this.acting("Try again", "retry", `/api/v1/inbox/${encodeURIComponent(item.thread)}/${item.seq}/retry`, "It comes back as a new message"));
    return this.row(words || "(a file)", state, at, name, item.said_at, [
      why(WHY[state] ?? state, item.reason),
      facts(["Kind", item.kind], ["Said", moment(item.said_at)], ["Stored", item.stored && moment(item.stored)], ["Ended", item.ended && moment(item.ended)], ["Number", `${item.seq}`], ["Turn", item.turn && id(item.turn)], ["Thread", this.thread(item.thread, at)]),
      node("pre", "whole", words ?? ""),
      node("div", "choices", ...buttons),
    ]);
  }

  post(item) {
    const out = item.row.outbound;
    const buttons = [];
    if (item.state === "dead") buttons.push(this.acting("Try again", "retry", `/api/v1/outbox/${encodeURIComponent(item.row.id)}/retry`, "It is sent again"));
    if (["dead", "ready", "sending"].includes(item.state)) buttons.push(this.acting("Drop it", "trash", `/api/v1/outbox/${encodeURIComponent(item.row.id)}/drop`, "It was dropped"));
    const next = item.state === "ready" && new Date(item.ready_at) > houseNow() ? `next try ${relative(item.ready_at)}` : null;
    return this.row(out.text || out.files.join(", ") || "(nothing)", item.state, out.address, item.row.kind, item.started, [
      why(SAID[item.state], item.error),
      facts(["Kind", item.row.kind], ["Written", moment(item.started)], ["Ended", item.ended && moment(item.ended)], ["Tries", String(item.attempts)], ["Next", next], ["Given up", item.ended ? null : moment(item.expires)], ["Parts", `${item.parts.filter((part) => part.receipt).length} of ${item.parts.length || 1} sent`], ["Id", id(item.row.id)], ["Turn", item.turn && id(item.turn)], ["Thread", this.thread(item.thread, out.address)]),
      node("pre", "whole", out.text),
      node("div", "choices", ...buttons),
    ]);
  }

  row(words, state, at, who, time, inside) {
    const head = node("summary", "row", pill(state, TONES[state]), node("span", "row-main", rowTitle(words.slice(0, 300)), node("span", "row-sub", pill(at.channel), node("span", "place", `${place(at)} · ${who}`))), when(time));
    head.dataset.row = "";
    return node("details", "message", head, node("div", "message-inside", ...inside));
  }

  thread(thread, at) {
    const link = node("a", "", place(at));
    link.href = `#/threads/${encodeURIComponent(thread)}`;
    return link;
  }

  acting(label, name, path, done) {
    return button(
      label,
      name === "trash" ? "choice danger" : "choice good",
      async (made) => {
        made.disabled = true;
        try {
          await call(path, {});
          this.board.toast(done);
        } catch (error) {
          this.board.toast(error.message);
          made.disabled = false;
        }
        if (document.activeElement === document.body) made.closest("details")?.querySelector("summary")?.focus(); // a disabled button holds no focus
        for (const list of this.lists) list.stale(0);
        this.board.counted();
      },
      name,
    );
  }

  changed() {
    for (const list of this.lists) list.stale();
  }

  close() {
    this.closed = true;
    for (const list of this.lists) list.close();
  }
}
