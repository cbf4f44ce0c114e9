// What the house says about itself: dots per channel in the side bar, facts in the drawer.

import { call } from "./wire.js";
import { clocksApart, relative, zone } from "./times.js";
import { cost } from "./pieces.js";
import { node } from "./transcript.js";

export const WORDS = { starting: "starting", connected: "connected", reconnecting: "reconnecting", auth_failed: "not accepted", conflict: "used elsewhere", standby: "on standby", failed: "failed", off: "off" };
export const TONES = { connected: "good", starting: "busy", reconnecting: "busy", standby: "quiet", off: "quiet" };

/** Money and tokens of the UTC day, against their limits where there are any. */
function spent(day) {
  if (!day) return "nothing";
  const usd = `${cost(day.usd * 1e6, day.unpriced)}${day.usd_limit === null ? "" : ` of $${day.usd_limit}`}`;
  return `${usd} · ${day.tokens.toLocaleString()} tokens${day.tokens_limit === null ? "" : ` of ${day.tokens_limit.toLocaleString()}`}`;
}

/** No model is configured: the house says so, and why. */
export function offline(status) {
  return /^offline\b/.test(status?.provider ?? "");
}

export class StatusBoard {
  constructor({ dots, facts, told }) {
    this.dots = dots;
    this.facts = facts;
    this.told = told;
    this.last = null;
    this.timer = undefined;
  }

  begin() {
    this.tick();
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.timer && this.refresh());
  }

  end() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async tick() {
    await this.refresh();
    const seen = document.visibilityState === "visible"; // an unseen page still says in its tab what waits
    if (this.timer !== null) this.timer = setTimeout(() => this.tick(), seen ? 10_000 : 30_000);
  }

  /** Once, when it is quiet again. */
  soon() {
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => this.refresh(), 400);
  }

  async refresh() {
    try {
      this.last = await call("/api/v1/status");
    } catch {
      this.told(null);
      return;
    }
    this.draw(this.last);
    this.told(this.last);
  }

  draw(status) {
    const channels = Object.entries(status.channels).filter(([, channel]) => channel.type === "channel_status");
    this.dots.replaceChildren(
      ...channels.map(([name, channel]) => {
        const row = node("span", "channel", node("i", `dot ${TONES[channel.state] ?? "bad"}`), node("span", "", name));
        row.title = `${name}: ${WORDS[channel.state]}${channel.detail ? `. ${channel.detail}` : ""}`;
        return row;
      }),
    );
    this.dots.setAttribute("aria-label", `Status: ${channels.map(([name, channel]) => `${name} ${WORDS[channel.state]}`).join(", ")}`);
    this.facts.replaceChildren(...this.warnings(status), this.house(status), ...channels.map(([name, channel]) => this.channel(name, channel)));
  }

  warnings(status) {
    return [...status.warnings, clocksApart()].filter(Boolean).map((warning) => node("p", "warning", warning));
  }

  house(status) {
    const waiting = status.oldest_waiting ? `, oldest ${relative(status.oldest_waiting)}` : "";
    const sum = (counts, names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);
    const rows = [
      ["House", status.ready ? "ready" : "starting"],
      ["Model", offline(status) ? `none configured (${status.provider})` : `${status.model} · ${status.provider}`],
      ["Turns", `${status.turns_running} running, ${status.turns_parked} waiting for a person`],
      ["Inbox", `${sum(status.inbox, ["waiting", "taken"])} waiting${waiting}`],
      ["Outbox", `${sum(status.outbox, ["ready", "sending"])} on the way`],
      ...(status.asking ? [["People", `${status.asking} ask${status.asking === 1 ? "s" : ""} to be let in`]] : []),
      ["Spent today", spent(status.budget.day)],
      ["Up since", relative(status.started)],
      ["Times are in", zone()],
      ["Version", status.version],
    ];
    return node("dl", "house", ...rows.flatMap(([name, value]) => [node("dt", "", name), node("dd", "", value)]));
  }

  channel(name, channel) {
    const made = node("section", "fact", node("h3", "", node("i", `dot ${TONES[channel.state] ?? "bad"}`), name), node("p", "", WORDS[channel.state]));
    if (channel.detail) made.append(node("p", "detail", channel.detail));
    const times = [channel.last_event && `heard ${relative(channel.last_event)}`, channel.last_delivery && `delivered ${relative(channel.last_delivery)}`].filter(Boolean);
    if (times.length) made.append(node("p", "muted", times.join(" · ")));
    return made;
  }
}
