// Jobs, what they did and when they run next; a form for a new one.

import { JobForm } from "./job-form.js";
import { button, empty, facts, icon, id, moment, node, pill, span, sure, when } from "./pieces.js";
import { exact } from "./times.js";
import { call } from "./wire.js";

const TONES = { done: "good", failed: "bad", missed: "warn", skipped: "quiet", claimed: "busy", running: "busy" };
const rhythm = (job) => (job.at ? node("span", "place", `once, ${exact(job.at)}`) : node("code", "", job.schedule ?? `every ${job.every}`));
const one = (name) => `/api/v1/cron/${encodeURIComponent(name)}`;

export class Cron {
  constructor(board, [name, what]) {
    this.board = board;
    this.name = name;
    this.editing = what === "edit";
    this.box = node("div", "column");
    board.body.append(this.box);
    if (name === undefined) {
      board.title("Cron");
      board.tools.replaceChildren(button("New job", "choice good small", () => (location.hash = "#/cron/+"), "plus"));
    } else board.title(name === "+" ? "New job" : this.editing ? `Edit ${name}` : name);
    if (name === "+") this.form = new JobForm(this.box, board);
    else if (this.editing) this.edit();
    else this.draw();
  }

  async edit() {
    try {
      const job = await call(one(this.name));
      if (!this.closed) this.form = new JobForm(this.box, this.board, job);
    } catch (error) {
      if (!this.closed) this.board.failed(this.box, error);
    }
  }

  async draw() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const { jobs } = await call("/api/v1/cron");
      const shown = jobs.find((job) => job.name === this.name);
      const history = shown ? (await call(`${one(this.name)}/history`)).occurrences : null; // a job that was deleted has none
      if (this.closed || asked !== this.asked) return;
      const text = JSON.stringify([jobs, history]);
      if (text === this.shown) return;
      this.shown = text;
      if (this.name === undefined) this.list(jobs);
      else this.job(shown, history);
    } catch (error) {
      if (this.closed || asked !== this.asked) return;
      this.shown = undefined; // what went wrong stands there now
      this.board.failed(this.box, error);
    }
  }

  list(jobs) {
    if (!jobs.length) {
      this.box.replaceChildren(empty("calendar", "Nothing is scheduled", "A job asks the agent something at its time and sends the answer where you want it: a report each weekday at nine, a look at the disk every hour.", button("Make the first job", "choice good", () => (location.hash = "#/cron/+"), "plus")));
      return;
    }
    const rows = jobs.map((job) => {
      const link = node(
        "a",
        "row",
        node("i", `dot ${job.enabled ? (job.last?.state === "failed" ? "" : "good") : "quiet"}`),
        node("span", "row-main", node("span", "row-title", job.name), node("span", "row-sub", rhythm(job), node("span", "place", job.to ? `to ${job.to}` : "nobody is told"), job.last ? pill(`last ${job.last.state}`, TONES[job.last.state]) : "")),
        job.enabled ? (job.next ? when(job.next, "next ") : node("span", "muted", "no next run")) : pill("paused", "quiet"),
      );
      link.href = `#/cron/${encodeURIComponent(job.name)}`;
      link.dataset.row = "";
      return node("li", "", link);
    });
    const list = node("ul", "rows", ...rows);
    list.setAttribute("aria-label", "Jobs");
    this.box.replaceChildren(list);
  }

  job(job, history) {
    const back = node("a", "back", icon("back"), "All jobs");
    back.href = "#/cron";
    if (!job) {
      this.box.replaceChildren(back, empty("calendar", "This job is gone", "It was deleted, or renamed in the configuration."));
      return;
    }
    const act = (what, said) => async (made) => {
      made.disabled = true;
      try {
        await call(`${one(job.name)}/${what}`, {});
        this.board.toast(said);
      } catch (error) {
        this.board.toast(error.message);
      }
      this.shown = null;
      this.draw();
    };
    const buttons = [button("Run now", "choice good", act("run", "It runs now"), "play"), job.enabled ? button("Pause", "choice", act("pause", "It does not run until you resume it"), "pause") : button("Resume", "choice", act("resume", "It runs at its times again"), "play")];
    if (job.source !== "config") buttons.push(button("Edit", "choice", () => (location.hash = `#/cron/${encodeURIComponent(job.name)}/edit`), "pen"), button("Delete", "choice danger", () => this.remove(job), "trash"));
    const details = facts(
      ["Runs", rhythm(job)],
      ["Next", job.enabled ? (job.next ? node("span", "", when(job.next), job.next_local ? `: ${job.next_local}` : "") : "never") : "paused"],
      ["Mind", job.note],
      ["Time zone", job.tz],
      ["Answer to", job.to ?? "nobody"],
      ["Thread", job.thread],
      ["Sends", { always: "always", changed: "only if the answer changed", wrong: "only if something is wrong" }[job.when] ?? job.when],
      ["If it was missed", { none: "it is left out", once: "once, as soon as possible", all: "each of them" }[job.catch_up] ?? job.catch_up],
      ["If it still runs", { skip: "the next is skipped", queue: "the next waits" }[job.overlap] ?? job.overlap],
      ["Ends after", job.deadline],
      ["May", job.rules?.length ? job.rules.join(", ") : "what needs no permission"],
      ["Secrets", Array.isArray(job.secrets) ? job.secrets.join(", ") : Object.keys(job.secrets ?? {}).join(", ")],
      ["From", job.source === "config" ? "config.yaml; change it there" : job.source],
    );
    this.box.replaceChildren(back, node("section", "sheet", node("pre", "whole", job.prompt), details, node("div", "choices", ...buttons)), node("h2", "row-head", "History"), this.history(history));
  }

  history(rows) {
    if (!rows.length) return node("p", "muted pad", "It has not run yet.");
    const made = rows.map((row) => {
      const took = row.started && row.ended ? `took ${span(row.started, row.ended)}` : "";
      const head = node("summary", "row", pill(row.state, TONES[row.state]), node("span", "row-main", node("span", "row-title", row.preview || row.reason || "no words"), node("span", "row-sub", node("span", "place", [row.preview && row.reason, took].filter(Boolean).join(" · ")))), when(row.due));
      head.dataset.row = "";
      return node("li", "", node("details", "message", head, node("div", "message-inside", facts(["Due", moment(row.due)], ["Started", row.started && moment(row.started)], ["Ended", row.ended && moment(row.ended)], ["Reason", row.reason], ["Turn", row.turn && id(row.turn)]), row.preview ? node("pre", "whole", row.preview) : "")));
    });
    const list = node("ul", "rows", ...made);
    list.setAttribute("aria-label", "Runs");
    return list;
  }

  async remove(job) {
    if (!(await sure(`Delete the job “${job.name}”? Its history goes with it.`, "Delete it"))) return;
    try {
      await call(one(job.name), undefined, { method: "DELETE" });
      this.board.toast(`${job.name} is deleted`);
      location.hash = "#/cron";
    } catch (error) {
      this.board.toast(error.message);
    }
  }

  changed(what) {
    if (this.name === "+" || this.editing || !["job", "any", "state", "ready"].includes(what)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), 300);
  }

  tick() {
    this.changed("any");
  }

  close() {
    this.closed = true;
    this.form?.close();
    clearTimeout(this.timer);
  }
}
