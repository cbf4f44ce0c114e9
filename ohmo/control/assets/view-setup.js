// Set-up: what config.yaml says of model, channels, people and rules, as forms; each is written by itself.

import { node } from "./pieces.js";
import { ChannelPart } from "./setup-channel.js";
import { ModelPart } from "./setup-model.js";
import { PeoplePart, RulesPart } from "./setup-people.js";
import { call } from "./wire.js";

const LOOK = 700; // ms between two looks at whether the house runs with what was written
const PATIENCE = 40; // looks

export class Setup {
  constructor(board) {
    this.board = board;
    board.title("Set-up");
    this.banner = node("p", "setup-banner");
    this.banner.setAttribute("role", "status");
    this.box = node("div", "column setup");
    board.body.append(this.box);
    this.begin();
  }

  async begin() {
    try {
      const state = await call("/api/v1/setup");
      if (this.closed) return;
      const channels = state.channels.map(({ name }) => new ChannelPart(this, name));
      this.parts = [new ModelPart(this), ...channels, new PeoplePart(this), new RulesPart(this)];
      const [model, people, rules] = [this.parts[0], ...this.parts.slice(-2)];
      const file = node("p", "muted", "Everything here stands in ", node("code", "", state.file), ", where remarks and order stay as you wrote them; keys stand in .env beside it.");
      this.box.replaceChildren(file, this.banner, model.box, node("section", "setup-channels", node("h2", "", "Channels"), ...channels.map((part) => part.whole)), people.box, rules.box);
      this.show(state);
    } catch (error) {
      if (!this.closed) this.board.failed(this.box, error);
    }
  }

  show(state) {
    for (const part of this.parts) part.draw(state);
    const waits = state.taken ? "" : "ohmo does not run with what is written yet.";
    this.tell(state.problem ? `What is written cannot be taken over: ${state.problem}` : waits, state.problem ? "refused" : "");
  }

  tell(words, tone) {
    this.banner.className = `setup-banner ${tone}`;
    this.banner.textContent = words;
  }

  /** What stood on the page was of `before`, and the change was ours. */
  wrote(before, version) {
    for (const part of this.parts) if (part.version === before) part.version = version;
    this.tell("ohmo takes it over…", "busy");
    clearTimeout(this.timer);
    this.look(version, PATIENCE);
  }

  /** Until the house runs with what was written; it is away for a moment meanwhile. */
  async look(version, left) {
    const state = await call("/api/v1/setup").catch(() => null);
    if (this.closed) return;
    if (state?.taken || state?.problem || (state && state.version !== version) || left === 0) {
      if (state) this.show(state);
      if (state?.taken) this.tell("ohmo runs with what is written.", "good");
      else if (!state?.problem) this.tell("ohmo does not run with what is written yet. In a terminal: ohmo config check", "refused");
      return;
    }
    this.timer = setTimeout(() => this.look(version, left - 1), LOOK);
  }

  again() {
    this.board.show(this.board.path);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
