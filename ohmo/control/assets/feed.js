// What happens in the whole house, from the place where this page was cut off: ids are kept, nothing between is missed.

import { Returning } from "./wire.js";

const KINDS = ["changed", "turn_started", "turn_ended", "tool_started", "tool_refused", "tool_done", "status", "failure"];

export class Feed extends Returning {
  /** `hear(kind, data)`: also "reset" when what was missed is not known any more. */
  constructor(hear, state) {
    super(state);
    this.hear = hear;
    this.cursor = "";
    this.open();
  }

  open() {
    const source = new EventSource(`/api/v1/events${this.cursor ? `?since=${encodeURIComponent(this.cursor)}` : ""}`);
    this.source = source;
    const take = (kind) => (event) => {
      if (this.source !== source) return;
      if (event.lastEventId) this.cursor = event.lastEventId;
      if (kind === "ready") this.ready();
      else this.hear(kind, JSON.parse(event.data));
    };
    for (const kind of [...KINDS, "ready", "reset"]) source.addEventListener(kind, take(kind));
    source.addEventListener("error", () => this.source === source && this.again());
  }
}
