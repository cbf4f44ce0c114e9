// Each channel's truth: is it connected, when was it last heard, was the last answer delivered, what waits.

import { empty, facts, moment, node, pill, when } from "./pieces.js";
import { TONES, WORDS } from "./status.js";
import { call } from "./wire.js";

export class Channels {
  constructor(board) {
    this.board = board;
    board.title("Channels");
    this.box = node("div", "sheets");
    this.box.setAttribute("aria-live", "polite");
    board.body.append(this.box);
    this.read();
  }

  async read() {
    try {
      const { channels } = await call("/api/v1/channels");
      const text = JSON.stringify(channels);
      if (this.closed || text === this.shown) return;
      this.shown = text;
      this.box.replaceChildren(...(channels.length ? channels.map((channel) => this.sheet(channel)) : [empty("plug", "No channel is switched on", "Put a token into config.yaml, or begin with: ohmo init")]));
    } catch (error) {
      if (!this.closed) this.board.failed(this.box, error);
    }
  }

  sheet(channel) {
    const waiting = channel.waiting ? node("span", "", `${channel.waiting}`, channel.oldest_waiting ? when(channel.oldest_waiting, ", the oldest ") : "") : "nothing";
    const dead = node("a", "", String(channel.dead));
    dead.href = "#/messages/dead";
    const made = node(
      "section",
      "sheet channel-sheet",
      node("h2", "", node("i", `dot ${TONES[channel.state] ?? "bad"}`), node("span", "", channel.name), pill(WORDS[channel.state] ?? channel.state, channel.connected ? "good" : TONES[channel.state] === "busy" ? "busy" : TONES[channel.state] === "quiet" ? "quiet" : "bad")),
      channel.detail ? node("p", "detail", channel.detail) : "",
      facts(["Last heard", moment(channel.last_event)], ["Last answer delivered", moment(channel.last_delivery)], ["Authenticated call", channel.last_call === undefined ? null : moment(channel.last_call)], ["Waiting for an answer", waiting], ["On the way out", channel.outgoing ? String(channel.outgoing) : "nothing"], ["Dead letters", channel.dead ? dead : "none"]),
    );
    made.tabIndex = 0;
    made.dataset.row = "";
    made.setAttribute("aria-label", `${channel.name}: ${WORDS[channel.state] ?? channel.state}`);
    return made;
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 500);
  }

  tick() {
    this.read();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
