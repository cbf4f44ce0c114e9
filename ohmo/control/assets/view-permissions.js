// What people allowed for longer than once: a button takes it back.

import { button, empty, node, pill, rowTitle, sure, when } from "./pieces.js";
import { Whole } from "./whole.js";
import { call } from "./wire.js";

export class Permissions extends Whole {
  constructor(board) {
    super(board, "Permissions", "column");
    this.content = node("div", "");
    this.box.append(this.content);
    this.read();
  }

  async fetch() {
    const { permissions } = await call("/api/v1/permissions");
    return permissions;
  }

  draw(permissions) {
    const list = node("ul", "rows", ...permissions.map((one) => this.row(one)));
    list.setAttribute("aria-label", "Permissions");
    this.content.replaceChildren(permissions.length ? list : empty("shield", "Nothing was allowed for longer than once", "What is allowed for a session or for always with a button is listed here. Rules of config.yaml are not."));
  }

  row(one) {
    const until = one.until === "always" ? "always" : "for its session";
    const sub = node("span", "row-sub", node("span", "place", one.rule), node("span", "place", `for ${one.person}`), when(one.at));
    const made = node("div", "row", pill(until, one.until === "always" ? "warn" : "quiet"), node("span", "row-main", rowTitle(one.means), sub), button("Revoke", "choice danger small", () => this.revoke(one)));
    made.dataset.row = "";
    made.tabIndex = 0;
    return node("li", "", made);
  }

  async revoke(one) {
    if (!(await sure(`Ask again before: ${one.means}?`, "Revoke"))) return;
    try {
      await call(`/api/v1/permissions/${encodeURIComponent(one.id)}/revoke`, {});
      this.board.toast("Revoked: it asks again");
    } catch (error) {
      this.board.toast(error.message);
    }
    this.read();
  }

  tick() {
    this.read(); // one may have been given in a chat
  }
}
