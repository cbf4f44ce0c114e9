// The list of this browser's conversations in the side bar.

import { node } from "./transcript.js";
import { call } from "./wire.js";

export class Chats {
  /** `here()`: the chat that is open, or undefined; `read(answer)`: what the house said beside the chats; `turned()`: the open one was chosen
      again. */
  constructor({ list, title }, { here, read, turned }) {
    Object.assign(this, { list, title, here, read, turned });
    this.rows = [];
  }

  async refresh() {
    try {
      const answer = await call("/api/v1/web/chats");
      this.rows = answer.chats;
      this.read(answer);
      this.draw();
    } catch {
      // the list stays as it is; it is read again soon
    }
  }

  draw() {
    const here = this.here();
    const known = this.rows.some((chat) => chat.chat === here);
    const rows = known || !here ? this.rows : [{ chat: here, title: "", state: "idle" }, ...this.rows];
    this.list.replaceChildren(
      ...rows.map((chat) => {
        const link = node("a", "", Object.assign(node("span", "", chat.title || "New chat"), { dir: "auto" }));
        link.href = `#chat=${encodeURIComponent(chat.chat)}`;
        if (chat.chat === here) link.setAttribute("aria-current", "page");
        if (chat.state === "parked") link.append(node("i", "dot busy"));
        link.addEventListener("click", () => chat.chat === here && this.turned());
        return node("li", "", link);
      }),
    );
    const title = rows.find((chat) => chat.chat === here)?.title || "New chat";
    this.title.textContent = title;
    if (here) document.title = title === "New chat" ? "ohmo" : `${title} · ohmo`;
  }
}
