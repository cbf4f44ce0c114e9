// Who counts as whom, and which calls run without asking.

import { id, node } from "./pieces.js";
import { field, lines, Part } from "./setup-parts.js";
import { call } from "./wire.js";

const ROLES = [["owner", "Owner", "Hears of trouble and may do everything."], ["admin", "Admins", "May have everything done, and answer for others."], ["user", "Users", "May have things done; what changes something asks first."], ["guest", "Guests", "May talk and ask; nothing is changed for them."]];
const PRESETS = [["safe", "safe: the network asks, too"], ["balanced", "balanced: what only reads runs unasked"], ["full", "full: nothing asks, inside a sandbox"]];
const KINDS = [["allow", "Runs unasked"], ["ask", "Always asks"], ["deny", "Never runs"]];

function link(words, href) {
  return Object.assign(node("a", "", words), { href });
}

export class PeoplePart extends Part {
  fill({ people }) {
    this.roles = ROLES.map(([role, label, help]) => Object.assign(field(`setup-${role}`, label, help, { rows: 2, value: people[role].join("\n"), placeholder: "one a line, for example slack:U123" }), { means: role }));
    this.next = field("setup-next", "Who is let in by a code is", "", { options: [["guest", "a guest"], ["user", "a user"], ["admin", "an admin"]], value: people.default_role });
    this.known = node("p", "muted setup-known");
    this.learn().catch(() => {}); // the addresses can be typed
    const save = Object.assign(node("button", "choice good", "Save the roles"), { type: "submit" });
    return [node("h2", "", "People"), node("p", "muted", "Addresses are CHANNEL:ID; /whoami in a chat says one's own. Codes are dealt with under ", link("People", "#/people"), "."), node("div", "two", ...this.roles), this.known, this.next, node("div", "choices", save)];
  }

  async learn() {
    const { people } = await call("/api/v1/pairing");
    const found = people.flatMap((one) => [`${one.name || one.person}: `, id(`${one.channel}:${one.person}`), " "]);
    if (found.length) this.known.replaceChildren("Who wrote so far: ", ...found);
  }

  save() {
    const said = Object.fromEntries(this.roles.map(({ means, input }) => [means, lines(input.value)]));
    return this.send("people", { ...said, default_role: this.next.input.value });
  }
}

export class RulesPart extends Part {
  fill({ rules }) {
    this.preset = field("setup-preset", "Preset", rules.mode === "full_auto" ? "The file says mode: full_auto, so everything runs unasked." : "", { options: PRESETS, value: rules.preset });
    this.rules = KINDS.map(([kind, label]) => Object.assign(field(`setup-${kind}`, label, "", { rows: 3, value: rules[kind].join("\n"), placeholder: "one a line, for example Bash(git status:*)" }), { means: kind }));
    const save = Object.assign(node("button", "choice good", "Save the rules"), { type: "submit" });
    return [node("h2", "", "What runs unasked"), node("p", "muted", "Deny beats ask, ask beats allow. What was allowed with a button is listed and taken back under ", link("Permissions", "#/permissions"), "."), this.preset, node("div", "two", ...this.rules), node("div", "choices", save)];
  }

  save() {
    const said = Object.fromEntries(this.rules.map(({ means, input }) => [means, lines(input.value)]));
    return this.send("rules", { ...said, preset: this.preset.input.value });
  }
}
