// Everything that waits for a person's word.

import { asking } from "./asking.js";
import { Paged } from "./paged.js";
import { empty, node } from "./pieces.js";
import { call } from "./wire.js";

export class Approvals {
  constructor(board) {
    this.board = board;
    board.title("Approvals");
    const box = node("div", "column");
    board.body.append(box);
    this.list = new Paged(box, {
      label: "Open questions",
      scroll: board.body,
      fetch: async (after, limit) => {
        const answer = await call(`/api/v1/approvals?limit=${limit}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
        return { items: answer.approvals, next: answer.next };
      },
      key: (asked) => asked.ask.id,
      draw: (asked) => node("li", "", asking(asked, board.toast, () => this.answered())),
      nothing: () => empty("shield", "Nothing waits for you", "When the agent wants to do something that needs your word, it asks here and in the chat."),
    });
    this.list.refresh().catch((error) => board.failed(box, error));
  }

  answered() {
    if (document.activeElement === document.body) this.board.body.focus(); // the pressed button is disabled
    this.list.stale(0);
    this.board.counted();
  }

  changed(what) {
    if (["approval", "any", "state", "ready"].includes(what)) this.list.stale();
  }

  tick() {
    this.list.stale(0); // a deadline may have passed
  }

  /** 1 to 9: the choices of the question that has the focus, or of the only one. */
  key(key) {
    if (!/^[1-9]$/.test(key)) return false;
    const cards = [...this.list.list.querySelectorAll(".ask")];
    const card = document.activeElement?.closest?.(".ask") ?? (cards.length === 1 ? cards[0] : null);
    const choice = card?.querySelectorAll(".choices > .choice")[Number(key) - 1];
    choice?.click();
    return Boolean(choice);
  }

  close() {
    this.list.close();
  }
}
