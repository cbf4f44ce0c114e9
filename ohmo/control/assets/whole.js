// A view that is read whole: again soon after something changed, and drawn anew only when what was read is different.

import { node } from "./pieces.js";

const SOON = 500; // ms: a burst of changes is one reading

export class Whole {
  /** A kind of it has `fetch()` -> what is read, as data, and `draw(found)`; it calls `read()` once when it stands. `kind`: the class of its box. */
  constructor(board, title, kind) {
    this.board = board;
    board.title(title);
    this.box = node("div", kind);
    this.content = this.box; // where what was read stands, or why it could not be read
    board.body.append(this.box);
  }

  async read() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const found = await this.fetch();
      const text = JSON.stringify(found);
      if (this.closed || asked !== this.asked || text === this.shown) return; // an answer that was overtaken may be about something else
      this.shown = text;
      this.draw(found);
    } catch (error) {
      if (this.closed || asked !== this.asked) return;
      this.shown = undefined; // what went wrong stands there now
      this.board.failed(this.content, error);
    }
  }

  changed() {
    this.later();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), SOON);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
