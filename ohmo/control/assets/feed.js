// What happens in the whole house, from the place where this page was cut off: ids are kept, nothing between is missed.

const KINDS = ["changed", "turn_started", "turn_ended", "tool_started", "tool_refused", "tool_done", "status", "failure"];

export class Feed {
  /** `hear(kind, data)`: also "reset" when what was missed is not known any more; `state`: "open" or "lost". */
  constructor(hear, state) {
    this.hear = hear;
    this.state = state;
    this.cursor = "";
    this.wait = 250;
    this.open();
  }

  open() {
    const source = new EventSource(`/api/v1/events${this.cursor ? `?since=${encodeURIComponent(this.cursor)}` : ""}`);
    this.source = source;
    const take = (kind) => (event) => {
      if (this.source !== source) return;
      if (event.lastEventId) this.cursor = event.lastEventId;
      if (kind === "ready") {
        this.wait = 250;
        this.state("open");
      } else this.hear(kind, JSON.parse(event.data));
    };
    for (const kind of [...KINDS, "ready", "reset"]) source.addEventListener(kind, take(kind));
    source.addEventListener("error", () => this.source === source && this.again());
  }

  again() {
    this.source?.close();
    this.source = null;
    this.state("lost");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(this.wait * 1.7, 5000);
  }

  hurry() {
    if (this.source !== null || this.closed) return;
    clearTimeout(this.timer);
    this.wait = 250;
    this.open();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }
}
