// All conversations of all channels, newest first, with what each does right now.

import { Paged } from "./paged.js";
import { chooser, empty, node, place, pill, rowTitle, search, when } from "./pieces.js";
import { call } from "./wire.js";

const STATES = { running: ["thinking", "busy"], ready: ["waiting its turn", "quiet"], parked: ["asks a person", "warn"] };

export class Threads {
  constructor(board) {
    this.board = board;
    this.channel = "";
    this.words = "";
    board.title("Threads");
    this.field = search("Words in threads", "Search", (words) => {
      this.words = words;
      this.again();
    }, board.body);
    board.tools.replaceChildren(this.field);
    this.options().catch(() => {}); // without it the list is only not filtered
    this.begin();
  }

  async options() {
    const { channels } = await call("/api/v1/channels");
    const names = [...new Set([...channels.map((channel) => channel.name.split("/")[0]), "house"])];
    if (this.closed) return;
    this.board.tools.append(
      chooser("Channel", [["", "All channels"], ...names.map((name) => [name, name])], this.channel, (value) => {
        this.channel = value;
        this.again();
      }),
    );
  }

  again() {
    if (this.closed) return;
    this.list.close();
    this.board.body.replaceChildren();
    this.begin();
  }

  begin() {
    this.list = new Paged(this.board.body, {
      label: "Threads",
      scroll: this.board.body,
      fetch: async (after, limit) => {
        const answer = await call(`/api/v1/sessions?limit=${limit}&channel=${encodeURIComponent(this.channel)}&text=${encodeURIComponent(this.words)}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
        return { items: answer.sessions, next: answer.next };
      },
      key: (session) => session.thread,
      draw: (session) => this.row(session),
      nothing: () => this.words ? empty("search", "Nothing fits", "Neither the name or place of a thread nor one of the newest 10 000 messages has these words.") : empty("threads", "No conversations yet", "Whoever writes to ohmo, in whatever channel, appears here."),
    });
    this.list.refresh().catch((error) => this.board.failed(this.board.body, error));
  }

  row(session) {
    const live = this.board.does(session.thread);
    const [word, tone] = live !== undefined ? [live, "busy"] : (STATES[session.state] ?? ["", ""]);
    const words = node("span", "doing", word);
    const link = node(
      "a",
      "row",
      node("i", `dot ${tone === "busy" ? "busy" : session.state === "parked" ? "warn" : "quiet"}`),
      node("span", "row-main", rowTitle(session.title || "Nobody has written here yet"), node("span", "row-sub", pill(session.address.channel), node("span", "place", session.who ? `${place(session.address)} · ${session.who}` : place(session.address)), words)),
      when(session.last_at),
    );
    link.href = `#/threads/${encodeURIComponent(session.thread)}`;
    link.dataset.row = "";
    return node("li", "", link);
  }

  changed() {
    this.list.stale();
  }

  event(kind, data) {
    const held = this.list.rows.get(data.thread);
    if (!held) return this.list.stale();
    const live = this.board.does(data.thread);
    held.row.querySelector(".doing").textContent = live ?? "";
    held.row.querySelector(".dot").className = `dot ${live !== undefined ? "busy" : "quiet"}`;
    if (kind === "turn_ended") {
      held.text = ""; // its state is read again, whatever it was
      this.list.stale();
    }
  }

  close() {
    this.closed = true;
    this.list.close();
  }
}
