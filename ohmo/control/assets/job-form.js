// The form for a new job: what it would be, and when it runs next, is shown by the house while one types.

import { button, facts, node } from "./pieces.js";
import { call } from "./wire.js";

const TOLD = {
  schedule: ["0 9 * * 1-5", "Five fields: minute hour day month weekday; a sixth are seconds."],
  every: ["30m", "A number and s, m, h or d: 30m, 24h."],
  at: ["2026-12-24T18:00", "A date and a time in the job's time zone; tomorrow 9:00, in 20 minutes."],
};
const WHEN = [["", "always"], ["always", "always"], ["changed", "only if the answer changed"], ["wrong", "only if something is wrong"]];
const MISSED = [["", "run the newest once (as usual)"], ["none", "leave it out"], ["once", "run once"], ["all", "run each"]];
const OVERLAP = [["", "skip the next (as usual)"], ["skip", "skip the next"], ["queue", "the next waits"]];
const PLAIN = ["name", "prompt", "to", "thread", "tz", "when", "catch_up", "overlap", "deadline"];
const mine = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });

function field(name, label, help, extra = {}) {
  const input = Object.assign(node(extra.rows ? "textarea" : "input", ""), { name, id: `job-${name}`, autocomplete: "off", ...extra });
  const text = node("label", "", label);
  text.htmlFor = input.id;
  const hint = node("p", "muted", help);
  hint.id = `job-${name}-help`;
  input.setAttribute("aria-describedby", hint.id);
  return node("div", "field", text, input, hint);
}

function choice(name, label, options) {
  const input = Object.assign(node("select", "", ...options.map(([value, text]) => Object.assign(node("option", "", text), { value }))), { name, id: `job-${name}` });
  const text = node("label", "", label);
  text.htmlFor = input.id;
  return node("div", "field", text, input);
}

/** Every zone the browser knows, to choose from while one types. */
function zones() {
  const list = node("datalist", "", ...(Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => Object.assign(node("option", ""), { value: zone })));
  list.id = "job-zones";
  return list;
}

export class JobForm {
  constructor(box, board) {
    this.board = board;
    this.recipes = [];
    this.problem = node("p", "refused");
    this.problem.setAttribute("role", "alert");
    this.parameters = node("div", "two");
    this.preview = node("div", "preview");
    this.preview.setAttribute("aria-live", "polite");
    this.send = Object.assign(node("button", "choice good", "Create the job"), { type: "submit" });
    this.form = this.build();
    box.replaceChildren(this.form);
    this.form.addEventListener("input", () => this.soon());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.create();
    });
    const { kind, time, recipe } = this.form.elements;
    kind.addEventListener("change", () => {
      [time.placeholder, document.getElementById("job-time-help").textContent] = TOLD[kind.value];
    });
    recipe.addEventListener("change", () => this.begun());
    this.begun();
    this.learn().catch(() => {}); // without recipes a job is written by hand
    this.form.elements.name.focus();
  }

  build() {
    const cancel = button("Cancel", "choice", () => (location.hash = "#/cron"));
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const made = node(
      "form",
      "sheet job-form",
      choice("recipe", "Begin with", [["", "nothing, I write it myself"]]),
      this.parameters,
      field("name", "Name", "Short; it names the job everywhere.", { placeholder: "morning-report", maxLength: 80 }),
      field("prompt", "What shall the agent do?", "Said to the agent at each run, as if you wrote it.", { rows: 4, placeholder: "Read the CI results of last night and report what broke, grouped by cause." }),
      node("div", "two", choice("kind", "Runs", [["schedule", "on a schedule (cron)"], ["every", "every so often"], ["at", "once, at a time"]]), field("time", "When", TOLD.schedule[1], { placeholder: TOLD.schedule[0] })),
      node("div", "two", field("tz", "Time zone", "Empty: as configured.", { placeholder: zone }), choice("when", "Deliver", WHEN)),
      this.preview,
      node("div", "two", field("to", "Send the answer to", "CHANNEL:CHAT, such as slack:C123 or web:reports. Empty: it is only in its history.", { placeholder: "web:reports" }), field("thread", "In the thread", "Empty: a message of its own.", { placeholder: "1700.1" })),
      node("div", "two", choice("catch_up", "Missed while off", MISSED), choice("overlap", "If it still runs", OVERLAP)),
      node("div", "two", field("deadline", "Ends after", "Empty: two hours.", { placeholder: "30m" }), field("rules", "It may, without asking", "One rule a line, such as Bash(gh run list:*). You allow them with the job.", { rows: 2 })),
      zones(),
      this.problem,
      node("div", "choices", this.send, cancel),
    );
    made.elements.tz.setAttribute("list", "job-zones");
    return made;
  }

  async learn() {
    const { recipes } = await call("/api/v1/recipes");
    if (this.closed) return;
    this.recipes = recipes;
    this.form.elements.recipe.append(...recipes.map((recipe) => Object.assign(node("option", "", `${recipe.name}: ${recipe.title}`), { value: recipe.name })));
    this.form.elements.recipe.closest(".field").hidden = recipes.length === 0;
  }

  /** With a recipe, what is left empty is as it says. */
  begun() {
    const { name, prompt, time, when, kind, recipe } = this.form.elements;
    const chosen = this.recipes.find((one) => one.name === recipe.value);
    for (const input of [name, prompt, time]) input.required = !chosen;
    when.options[0].textContent = chosen ? `as the recipe says (${chosen.when ?? "always"})` : "always";
    when.options[1].hidden = !chosen;
    if (!chosen && when.value === "always") when.value = "";
    name.placeholder = chosen?.name ?? "morning-report";
    prompt.placeholder = chosen?.prompt ?? "Read the CI results of last night and report what broke, grouped by cause.";
    time.placeholder = (kind.value === "schedule" && chosen?.schedule) || TOLD[kind.value][0];
    recipe.closest(".field").hidden = this.recipes.length === 0;
    this.parameters.replaceChildren(...(chosen?.parameters ?? []).map((one) => field(`set-${one.name}`, one.name, one.description, { placeholder: one.default ?? "", required: one.default === null })));
  }

  /** The fields that say something. */
  job() {
    const { elements } = this.form;
    const value = (name) => elements[name].value.trim();
    const job = {};
    for (const name of PLAIN) if (value(name)) job[name] = value(name);
    if (value("time")) job[value("kind")] = value("time");
    const rules = value("rules").split("\n").map((rule) => rule.trim()).filter(Boolean);
    if (rules.length) job.rules = rules;
    if (value("recipe")) {
      job.recipe = value("recipe");
      job.set = Object.fromEntries([...this.parameters.querySelectorAll("input")].filter((input) => input.value.trim()).map((input) => [input.name.slice(4), input.value.trim()]));
    }
    return job;
  }

  soon() {
    clearTimeout(this.timer);
    this.problem.textContent = "";
    this.timer = setTimeout(() => this.show(), 300);
  }

  /** What the house understood; while words are missing only the times. */
  async show() {
    const job = this.job();
    const asked = (this.asked = (this.asked ?? 0) + 1);
    if (!job.recipe && !job.schedule && !job.every && !job.at) {
      this.preview.replaceChildren();
      return;
    }
    const words = job.recipe ? {} : { name: "preview", prompt: "preview" };
    try {
      const seen = await call("/api/v1/cron", { ...words, ...job, preview: true });
      if (!this.closed && asked === this.asked) this.preview.replaceChildren(this.understood(seen));
    } catch (error) {
      if (!this.closed && asked === this.asked) this.preview.replaceChildren(node("p", "refused", error.message));
    }
  }

  understood(seen) {
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const runs = seen.upcoming.map(({ at, local }) => {
      const time = Object.assign(node("time", "", local), { dateTime: at });
      return node("li", "", time, here === seen.tz ? "" : node("span", "muted", ` here: ${mine.format(new Date(at))}`));
    });
    return node(
      "div",
      "",
      node("h3", "", runs.length === 1 ? "It runs" : "Next runs"),
      node("ol", "upcoming", ...runs),
      facts(["May, without asking", seen.rules.length ? seen.rules.join(", ") : "what needs no permission"], ["Gets the secrets", seen.secrets.join(", ")]),
    );
  }

  async create() {
    const job = this.job();
    clearTimeout(this.timer);
    this.send.disabled = true;
    this.problem.textContent = "";
    try {
      const made = await call("/api/v1/cron", job);
      this.board.toast(`${made.name} is scheduled`);
      location.hash = `#/cron/${encodeURIComponent(made.name)}`;
    } catch (error) {
      this.problem.textContent = error.message;
      this.send.disabled = false;
    }
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
