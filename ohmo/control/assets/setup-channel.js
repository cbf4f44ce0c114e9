// One chat platform: its own steps, the texts to paste there, its keys, a test, and a switch.

import { button, copy, node, pill } from "./pieces.js";
import { field, Part, secret } from "./setup-parts.js";

/** "paste {slack-manifest.yaml} → Create": the text stands below under its name. */
const step = (line) => line.replace(/\{([\w.-]+)\}/g, "the text $1 below");

export class ChannelPart extends Part {
  constructor(view, name) {
    super(view, "job-form");
    this.name = name;
    this.mark = node("span", "");
    this.title = node("span", "row-main", name);
    this.whole = node("details", "sheet setup-channel", node("summary", "", this.title, this.mark), this.box);
  }

  draw(state) {
    const channel = state.channels.find((one) => one.name === this.name);
    this.title.textContent = channel.title;
    this.mark.replaceChildren(pill(channel.enabled ? "on" : "off", channel.enabled ? "good" : "quiet"));
    super.draw(state);
  }

  fill(state) {
    const channel = state.channels.find((one) => one.name === this.name);
    if (channel.several) return [node("p", "", `${channel.title} has several accounts; change them in ${state.file}.`)];
    this.enabled = channel.enabled;
    const steps = node("ol", "setup-steps", ...channel.steps.map((line) => node("li", "", step(line))));
    const texts = Object.entries(channel.texts).map(([name, text]) => node("details", "setup-text", node("summary", "", name), Object.assign(node("pre", "whole", text), { tabIndex: 0 }), copy(text, `Copy ${name}`)));
    this.fields = channel.keys.map((key) => {
      const id = `setup-${this.name}-${key.key}`;
      const made = key.secret ? secret(id, key.question, key.page, key.there, key.reference) : field(id, key.question, key.page, { value: key.value || key.default });
      return Object.assign(made, { key: key.key });
    });
    const test = button("Test", "choice", () => this.test(`channels/${this.name}/test`, { keys: this.keys() }), "pulse");
    const save = Object.assign(node("button", "choice good", channel.enabled ? "Save" : "Save and switch on"), { type: "submit" });
    const off = channel.enabled ? button("Switch off", "choice danger", () => this.switch(false)) : "";
    const after = channel.after.length ? [node("p", "", "Then:"), node("ol", "setup-steps", ...channel.after.map((line) => node("li", "", line)))] : [];
    return [steps, ...texts, node("div", "two", ...this.fields), node("div", "choices", test, save, off), ...after];
  }

  keys() {
    return Object.fromEntries(this.fields.map(({ key, input }) => [key, input.value.trim()]));
  }

  fine({ who }) {
    return `Connected as ${who}`;
  }

  switch(enabled) {
    return this.send(`channels/${this.name}`, { enabled, keys: enabled ? this.keys() : {} });
  }

  save() {
    return this.switch(true);
  }
}
