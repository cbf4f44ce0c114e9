// A list that grows by pages while one scrolls and keeps itself true: rows are made once, replaced only when their item changed.

import { button, node } from "./pieces.js";

const PAGE = 50;
const MOST = 1000; // rows that are kept true at once; what lies further down is read when one comes there

export class Paged {
  /** `fetch(after, limit)` -> {items, next}; `key(item)`; `draw(item)` -> li; `nothing()` -> what stands there when there is nothing. */
  constructor(box, { fetch, key, draw, nothing, label, scroll }) {
    Object.assign(this, { fetch, key, draw, nothing, scroll });
    this.rows = new Map(); // key -> {text, row}
    this.next = null;
    this.list = node("ul", "rows");
    this.list.setAttribute("aria-label", label);
    this.list.setAttribute("aria-busy", "true");
    this.end = node("div", "more");
    this.blank = node("div", "");
    box.append(this.list, this.blank, this.end);
    this.watch = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && this.more(), { root: scroll, rootMargin: "600px" });
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.watch.disconnect();
  }

  /** Soon, once, however often it is said. */
  stale(wait = this.rows.size > 200 ? 1000 : 200) {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      if (!this.closed) this.refresh().catch(() => this.stale(3000));
    }, wait);
  }

  /** Everything that is shown, as it is now. While it is read it is not asked for beside that, but once more behind it: a slow answer is drawn all the same. */
  refresh() {
    this.again = true;
    return (this.refreshing ??= this.renew().finally(() => (this.refreshing = undefined)));
  }

  async renew() {
    while (this.again && !this.closed) {
      this.again = false;
      await this.read();
    }
  }

  /** Rows take their places without disturbing what stands. */
  async read() {
    this.asked = (this.asked ?? 0) + 1;
    const { items, next } = await this.fetch(null, Math.min(Math.max(this.rows.size, PAGE), MOST));
    if (this.closed) return;
    this.next = next;
    const keys = new Set(items.map(this.key));
    const held = this.list.contains(document.activeElement);
    for (const [key, { row }] of [...this.rows]) if (!keys.has(key)) this.drop(key, row);
    if (held && !this.list.contains(document.activeElement)) this.scroll.focus(); // the keys go on in the list, not at the top of the page
    let before = null;
    for (const item of items) {
      const row = this.put(item);
      const follows = before === null ? this.list.firstElementChild : before.nextElementSibling;
      if (row !== follows) this.list.insertBefore(row, follows);
      before = row;
    }
    this.settle();
  }

  async more() {
    if (this.next === null || this.loading) return;
    this.loading = true;
    const asked = this.asked;
    try {
      const { items, next } = await this.fetch(this.next, PAGE);
      if (this.closed) return;
      if (asked === this.asked) { // or else a refresh came between: its mark counts, and the end may still be in sight
        this.next = next;
        for (const item of items) if (!this.rows.has(this.key(item))) this.list.append(this.put(item));
      }
    } catch {
      return this.stale(3000); // the house cannot be reached: the list is read again when it can
    } finally {
      this.loading = false;
    }
    this.settle();
  }

  put(item) {
    const key = this.key(item);
    const text = JSON.stringify(item);
    const old = this.rows.get(key);
    if (old?.text === text) return old.row;
    const row = this.draw(item, old?.row);
    row.dataset.key = key;
    if (old) {
      if (old.row.querySelector("details[open]")) row.querySelector("details")?.setAttribute("open", "");
      const had = old.row.contains(document.activeElement) ? [...old.row.querySelectorAll("a, button, summary")].indexOf(document.activeElement) : -1;
      old.row.replaceWith(row);
      if (had >= 0) [...row.querySelectorAll("a, button, summary")][had]?.focus();
    }
    this.rows.set(key, { text, row });
    return row;
  }

  drop(key, row) {
    row.remove();
    this.rows.delete(key);
  }

  settle() {
    this.list.setAttribute("aria-busy", "false");
    this.blank.replaceChildren(...(this.rows.size === 0 ? [this.nothing()] : []));
    this.end.replaceChildren(...(this.next === null ? [] : [button("Show more", "text", () => this.more())]));
    this.watch.unobserve(this.end); // where the end is still in sight, it is told anew
    this.watch.observe(this.end);
  }
}
