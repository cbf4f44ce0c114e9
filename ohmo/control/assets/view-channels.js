// Each channel's truth: is it connected, when was it last heard, was the last answer delivered, what waits.

import { empty, facts, moment, node, pill, when } from "./pieces.js";
import { TONES, WORDS } from "./status.js";
import { Whole } from "./whole.js";
import { call } from "./wire.js";

export class Channels extends Whole {
  constructor(board) {
    super(board, "Channels", "sheets");
    this.box.setAttribute("aria-live", "polite");
    this.read();
  }

  async fetch() {
    const { channels } = await call("/api/v1/channels");
    return channels;
  }

  draw(channels) {
    const nothing = empty("plug", "No channel is switched on", "Set-up, in the menu, has the steps of each and tests it");
    this.box.replaceChildren(...(channels.length ? channels.map((channel) => this.sheet(channel)) : [nothing]));
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

  tick() {
    this.read(); // what a channel hears is not told
  }
}
