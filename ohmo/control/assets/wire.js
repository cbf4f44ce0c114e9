// Speaks to the local API: JSON requests, and an event stream that comes back by itself with its cursor.

import { hearClock } from "./times.js";

export class Failed extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

/** One request; resolves with the JSON, rejects with Failed (status 0: the daemon cannot be reached). */
export async function call(path, body, init = {}) {
  const request = body === undefined ? init : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...init };
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...request });
  } catch {
    throw new Failed(0, "ohmo cannot be reached");
  }
  hearClock(response.headers.get("Date"));
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    answer = { error: response.statusText };
  }
  if (response.status === 401) document.dispatchEvent(new Event("stranger")); // the login ended
  if (!response.ok) throw new Failed(response.status, answer.error ?? String(response.status));
  return answer;
}

const KINDS = ["earlier", "item", "ready", "snapshot", "preview", "typing", "notice", "revised", "turn_started", "turn_ended", "tool_started", "tool_refused", "tool_progress", "tool_done", "status", "failure", "model_done", "text_delta", "text_reset", "post_state"];

const LAST = 200; // items a page that knows none begins with

/** An event stream that comes back by itself, after ever longer pauses. Who extends it makes `this.source` in `open`; `state` hears "open" or "lost". */
export class Returning {
  constructor(state) {
    this.state = state;
    this.wait = 250;
  }

  ready() {
    this.wait = 250;
    this.state("open");
  }

  again() {
    this.source?.close();
    this.source = null;
    this.state("lost");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(this.wait * 1.7, 5000);
  }

  /** Now, when there is a reason to hope. */
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

/** The events of one conversation (`of`: "chat=ID" or "thread=ID"). What is older than the last 200 items is told by "earlier". `cursor` is the number of the last durable item that was handled; after any
    gap the stream goes on from there. `unsettled()`: posts whose end was not seen yet. */
export class Stream extends Returning {
  constructor(of, hear, state, unsettled, cursor = 0) {
    super(state);
    this.of = of;
    this.hear = hear;
    this.unsettled = unsettled;
    this.cursor = cursor;
    this.open();
  }

  open() {
    const rows = this.unsettled().join(",");
    const source = new EventSource(`/api/v1/events?${this.of}&since=${this.cursor}${this.cursor ? "" : `&last=${LAST}`}${rows ? `&open=${encodeURIComponent(rows)}` : ""}`);
    this.source = source;
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (this.source !== source) return;
        const data = JSON.parse(event.data);
        if (kind === "item") {
          if (data.seq <= this.cursor) return;
          this.hear(kind, data);
          this.cursor = data.seq;
        } else {
          this.hear(kind, data);
        }
        if (kind === "ready") this.ready();
      });
    }
    source.addEventListener("error", () => this.source === source && this.again());
  }
}
