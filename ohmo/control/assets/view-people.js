// Who may talk to ohmo, and who asks to: a code lets somebody in, a button shows somebody out.

import { button, empty, node, pill, rowTitle, sure, when } from "./pieces.js";
import { Whole } from "./whole.js";
import { call } from "./wire.js";

const TONES = { asking: "warn", owner: "good", admin: "good", revoked: "quiet" };
const ROLES = { guest: "Guest: may talk and ask", user: "User: may have things done", admin: "Admin: answers for others, too" };
const SAID = { asking: "asks to be let in", revoked: "let in no more" };

/** Who asks comes first, who is let in no more last. */
const rank = (person) => ({ asking: 0, revoked: 2 })[person.role] ?? 1;

export class People extends Whole {
  constructor(board) {
    super(board, "People", "column");
    this.content = node("div", "");
    this.box.append(this.form(), this.content);
    this.read();
  }

  form() {
    const field = Object.assign(node("input", ""), { name: "code", id: "pairing-code", autocomplete: "off", maxLength: 64, required: true, spellcheck: false });
    const label = node("label", "", "Code");
    label.htmlFor = field.id;
    const help = node("p", "muted", "Who writes to ohmo for the first time is answered with a code. Ask the person for it: that is how you know who they are.");
    help.id = "pairing-help";
    field.setAttribute("aria-describedby", help.id);
    const role = Object.assign(node("select", "", ...Object.entries(ROLES).map(([value, words]) => Object.assign(node("option", "", words), { value }))), { id: "pairing-role" });
    role.setAttribute("aria-label", "As what");
    const send = Object.assign(node("button", "choice good", "Let in"), { type: "submit" });
    this.problem = node("p", "refused");
    this.problem.setAttribute("role", "alert");
    const form = node("form", "sheet pairing", node("h2", "", "Let somebody in"), help, label, node("div", "words", field, role, send), this.problem);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      send.disabled = true;
      this.problem.textContent = "";
      try {
        const person = await call("/api/v1/pairing", { code: field.value.trim(), role: role.value });
        field.value = "";
        this.board.toast(`${person.name || person.person} is let in as ${person.role}`);
        await this.read();
      } catch (error) {
        this.problem.textContent = error.message;
      } finally {
        send.disabled = false;
      }
    });
    return form;
  }

  async fetch() {
    const { people } = await call("/api/v1/pairing");
    return people;
  }

  draw(people) {
    const rows = [...people].sort((one, other) => rank(one) - rank(other) || one.channel.localeCompare(other.channel) || one.name.localeCompare(other.name));
    const list = node("ul", "rows", ...rows.map((person) => this.row(person)));
    list.setAttribute("aria-label", "People");
    this.content.replaceChildren(rows.length ? list : empty("people", "Nobody was let in yet", "Owners and people named in config.yaml need no code and are not listed here."));
  }

  row(person) {
    const name = person.name || person.person;
    const known = !["asking", "revoked"].includes(person.role);
    const tail = person.role === "asking" ? (person.expires ? when(person.expires, "the code ends ") : "") : known ? button("Show out", "choice danger small", () => this.revoke(person, name)) : "";
    const made = node("div", "row", pill(SAID[person.role] ?? person.role, TONES[person.role]), node("span", "row-main", rowTitle(name), node("span", "row-sub", pill(person.channel), node("span", "place", `${person.channel}:${person.person}`), person.by && known ? node("span", "place", `let in by ${person.by}`) : "")), tail);
    made.dataset.row = "";
    made.tabIndex = 0;
    return node("li", "", made);
  }

  async revoke(person, name) {
    if (!(await sure(`Let ${name} in no more? What they write is refused from now on.`, "Show out"))) return;
    try {
      await call("/api/v1/pairing/revoke", { channel: person.channel, account: person.account, person: person.person });
      this.board.toast(`${name} is let in no more`);
    } catch (error) {
      this.board.toast(error.message);
    }
    this.read();
  }

  tick() {
    this.read(); // a code may have ended
  }
}
