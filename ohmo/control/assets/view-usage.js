// What was spent: by day, model, person and thread.

import { bars } from "./chart.js";
import { chooser, cost, count, empty, money, node, place, tabs } from "./pieces.js";
import { houseNow } from "./times.js";
import { Whole } from "./whole.js";
import { call } from "./wire.js";

const tokens = (row) => row.input + row.cached + row.written + row.output;
const MEASURES = { cost: ["Cost", (row) => row.micro_usd, money], tokens: ["Tokens", tokens, count], calls: ["Calls", (row) => row.calls, count] };

/** `rows`: [name or node, {calls, input, cached, written, output, micro_usd, unpriced}]. */
function numbers(caption, label, rows) {
  const head = node("tr", "", ...[label, "Calls", "In", "From cache", "Out", "Cost"].map((text) => Object.assign(node("th", "", text), { scope: "col" })));
  const body = rows.map(([name, sum]) => node("tr", "", Object.assign(node("th", "", name), { scope: "row" }), ...[count(sum.calls), count(sum.input + sum.cached + sum.written), count(sum.cached), count(sum.output), cost(sum.micro_usd, sum.unpriced)].map((text) => node("td", "", text))));
  return node("div", "table-box", node("table", "numbers-table", node("caption", "", caption), node("thead", "", head), node("tbody", "", ...body)));
}

export class Usage extends Whole {
  constructor(board) {
    super(board, "Usage", "wide");
    this.days = 30;
    this.by = "model";
    this.read();
  }

  async fetch() {
    const of = (by) => call(`/api/v1/usage?days=${this.days}&by=${by}`);
    const [{ usage }, { usage: threads }, { usage: purposes }, { budgets }] = await Promise.all([of("person"), of("thread&limit=20"), of("purpose"), call("/api/v1/usage?days=1")]);
    return { rows: usage, threads, purposes, budgets };
  }

  draw({ rows, threads, purposes, budgets }) {
    this.rows = rows;
    this.threads = threads;
    this.purposes = purposes;
    this.budgets = budgets;
    this.measure ??= rows.some((row) => row.micro_usd > 0) ? "cost" : "tokens"; // what a model costs is not always known
    this.redraw();
  }

  toolbar() {
    this.board.tools.replaceChildren(
      chooser("Days", [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]], String(this.days), (value) => {
        this.days = Number(value);
        this.shown = null;
        this.read();
      }),
    );
  }

  redraw() {
    this.toolbar();
    if (!this.rows.length) {
      this.box.replaceChildren(empty("bars", "Nothing was spent yet", "Every call of a model is counted here: tokens in, out and from cache, and what it cost."));
      return;
    }
    const [, value, said] = MEASURES[this.measure];
    const whole = (name) => this.rows.reduce((sum, row) => sum + MEASURES[name][1](row), 0);
    const cached = this.rows.reduce((sum, row) => sum + row.cached, 0);
    const taken = this.rows.reduce((sum, row) => sum + row.input + row.cached + row.written, 0);
    const unpriced = this.rows.reduce((sum, row) => sum + row.unpriced, 0);
    const measures = Object.entries(MEASURES).filter(([key]) => key !== "cost" || !unpriced || whole("cost") > 0); // a chart of nothing would say $0
    const number = (label, text) => node("div", "number", node("b", "", text), node("span", "", label));
    const head = node("div", "numbers", number("cost", cost(whole("cost"), unpriced)), number("tokens", count(whole("tokens"))), number("calls", count(whole("calls"))), number("of the input from cache", taken ? `${Math.round((100 * cached) / taken)} %` : "–"));
    const of = (row) => (this.by === "model" ? row.model : row.who);
    const sums = new Map();
    for (const row of this.rows) sums.set(of(row), (sums.get(of(row)) ?? 0) + value(row));
    const names = [...sums.keys()].sort((one, other) => sums.get(other) - sums.get(one));
    const choose = node(
      "div",
      "chart-tools",
      tabs("Measure", measures.map(([key, [label]]) => [key, label]), this.measure, (key) => this.turn({ measure: key })),
      tabs("By", [["model", "By model"], ["person", "By person"]], this.by, (key) => this.turn({ by: key })),
    );
    const note = unpriced ? [node("p", "muted", `The price of ${unpriced} ${unpriced === 1 ? "call" : "calls"} is not known and counted nowhere; "pricing" in config.yaml gives a model its price, from then on.`)] : [];
    this.box.replaceChildren(head, ...note, choose, bars(this.byDay(of, value), names, said, `${MEASURES[this.measure][0]} by day and ${this.by}`), this.table("model", "Model"), this.table("person", "Person"), numbers("By purpose", "Purpose", this.purposes.map((one) => [one.name, one])), this.dearest());
    if (this.budgets.length) head.after(this.limits());
    const chart = this.box.querySelector(".chart-box");
    chart.scrollLeft = chart.scrollWidth; // on a phone it is wider than its box: today is what one came for
  }

  turn(chosen) {
    Object.assign(this, chosen);
    this.redraw();
    this.box.querySelector(`.tab[aria-pressed="true"]`)?.focus();
  }

  /** Every day of the span, also those without a call. */
  byDay(of, value) {
    const days = new Map();
    const today = new Date(houseNow()).toISOString().slice(0, 10);
    const last = this.rows.at(-1).day > today ? this.rows.at(-1).day : today;
    for (let back = this.days - 1; back >= 0; back--) days.set(new Date(Date.parse(last) - back * 86_400_000).toISOString().slice(0, 10), new Map());
    for (const row of this.rows) {
      const parts = days.get(row.day);
      parts?.set(of(row), (parts.get(of(row)) ?? 0) + value(row));
    }
    return [...days].map(([day, parts]) => ({ day, parts }));
  }

  table(by, label) {
    const sums = new Map();
    const ids = new Map(); // beside the names of people
    for (const row of this.rows) {
      const name = by === "model" ? row.model : row.who;
      if (by === "person" && !name.includes(row.id)) ids.set(name, row.id);
      const sum = sums.get(name) ?? { calls: 0, input: 0, cached: 0, written: 0, output: 0, micro_usd: 0, unpriced: 0 };
      for (const key of Object.keys(sum)) sum[key] += row[key];
      sums.set(name, sum);
    }
    const told = (name) => (ids.has(name) ? node("span", "", name, node("span", "place", ` ${ids.get(name)}`)) : name);
    const rows = [...sums].sort(([, one], [, other]) => tokens(other) - tokens(one));
    return numbers(`By ${by}`, label, rows.map(([name, sum]) => [told(name), sum]));
  }

  /** What may be spent; of the day also what was. */
  limits() {
    const said = (one) => [
      one.usd_limit === null ? "" : `${"usd" in one ? `${money((one.usd ?? 0) * 1e6)} of ` : ""}${money(one.usd_limit * 1e6)}`,
      one.tokens_limit === null ? "" : `${"tokens" in one ? `${count(one.tokens)} of ` : ""}${count(one.tokens_limit)} tokens`,
    ];
    const names = { turn: "one answer", thread: "one conversation", person_day: "one person a day", day: "a day", job: "one job a day" };
    return node("p", "muted", `Budgets: ${this.budgets.map((one) => `${names[one.budget]} ${said(one).filter(Boolean).join(", ")}`).join("; ")}.`);
  }

  /** The conversations that cost most; each leads to its thread. */
  dearest() {
    const rows = this.threads.map((one) => {
      if (!one.address) return ["ohmo itself", one];
      const link = node("a", "", one.title || "Nobody has written here yet");
      link.href = `#/threads/${encodeURIComponent(one.thread)}`;
      return [node("span", "", link, node("span", "place", ` ${place(one.address)}`)), one];
    });
    return numbers(rows.length < 20 ? "By thread" : "By thread, the 20 that cost most", "Thread", rows);
  }

  event(kind) {
    if (kind === "turn_ended") this.later();
  }

  changed(what) {
    if (what === "any") this.later();
  }
}
