// The form for a job, new or there already: what it would be, and when it runs next, is shown by the house while one types.

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
const PLAIN = ["name", "prompt", "to", "thread", "tz", "when", "catch_up", "overlap", "deadline", "retry", "jitter", "expires"];
const KINDS = ["schedule", "every", "at"];
const mine = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });

const SECRETS = "One a line: NAME=env:NAME, file:PATH or keyring:SERVICE/NAME. The model never sees them.";

/** `GH_TOKEN=env:GH_TOKEN` */
function pair(line) {
  const [name, ...rest] = line.split("=");
  return [name.trim(), rest.join("=").trim()];
}

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
  /** `job`: the one that is changed; without it a new one is made. */
  constructor(box, board, job) {
    this.board = board;
    this.job = job;
    this.recipes = [];
    this.problem = node("p", "refused");
    this.problem.setAttribute("role", "alert");
    this.parameters = node("div", "two");
    this.preview = node("div", "preview");
    this.preview.setAttribute("aria-live", "polite");
    this.send = Object.assign(node("button", "choice good", job ? "Save the changes" : "Create the job"), { type: "submit" });
    this.form = this.build();
    box.replaceChildren(this.form);
    this.form.addEventListener("input", () => this.soon());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.create();
    });
    const { kind, recipe } = this.form.elements;
    kind.addEventListener("change", () => this.explained());
    recipe.addEventListener("change", () => this.begun());
    this.begun();
    if (job) this.fill();
    else this.learn().catch(() => {}); // without recipes a job is written by hand
    (job ? this.form.elements.prompt : this.form.elements.name).focus();
  }

  explained() {
    const { kind, time } = this.form.elements;
    [time.placeholder, document.getElementById("job-time-help").textContent] = TOLD[kind.value];
  }

  /** The job as it is; what is not touched stays as it is. */
  fill() {
    const { elements } = this.form;
    elements.kind.value = KINDS.find((kind) => this.job[kind]) ?? "schedule";
    elements.time.value = this.job[elements.kind.value] ?? "";
    elements.rules.value = (this.job.rules ?? []).join("\n");
    elements.name.readOnly = true;
    document.getElementById("job-name-help").textContent = "A job keeps its name.";
    for (const name of ["when", "catch_up", "overlap"]) elements[name].options[0].remove(); // what is "as usual" was decided when it was made
    elements.when.options[0].hidden = false;
    for (const name of PLAIN) elements[name].value = this.job[name] ?? "";
    elements.secrets.placeholder = (this.job.secrets ?? []).join(", ");
    document.getElementById("job-secrets-help").textContent = this.job.secrets?.length ? `It gets ${this.job.secrets.join(", ")}. What is written here takes their place.` : SECRETS;
    this.explained();
    this.was = this.said();
    this.show();
  }

  build() {
    const cancel = button("Cancel", "choice", () => (location.hash = this.job ? `#/cron/${encodeURIComponent(this.job.name)}` : "#/cron"));
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
      node("div", "two", field("rules", "It may, without asking", "One rule a line, such as Bash(gh run list:*). You allow them with the job.", { rows: 2 }), field("secrets", "Its commands get the secrets", SECRETS, { rows: 2, placeholder: "GH_TOKEN=env:GH_TOKEN" })),
      node("div", "two", field("deadline", "Ends after", "Empty: two hours.", { placeholder: "30m" }), field("expires", "No run after", "In the job's time zone. Empty: it goes on.", { placeholder: "2026-12-31 18:00" })),
      node("div", "two", field("retry", "Tries after a failed run", "0 to 10. Empty: none.", { inputMode: "numeric", placeholder: "0" }), field("jitter", "Later by chance, at most", "So that not everything begins on the minute. Empty: on time.", { placeholder: "5m" })),
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

  /** Every field, as the API takes it; what is empty takes the field of a job away. */
  said() {
    const { elements } = this.form;
    const value = (name) => elements[name].value.trim();
    const lines = (name) => value(name).split("\n").map((line) => line.trim()).filter(Boolean);
    const job = { rules: lines("rules"), secrets: value("secrets") ? Object.fromEntries(lines("secrets").map(pair)) : "" };
    for (const name of PLAIN) job[name] = value(name);
    if (/^\d{0,3}$/.test(job.retry)) job.retry = Number(job.retry);
    for (const kind of KINDS) job[kind] = kind === value("kind") ? value("time") : "";
    return job;
  }

  /** What the house is told: of a new job the fields that say something, of a known one those that became others. */
  wanted() {
    const said = this.said();
    const same = (name) => JSON.stringify(said[name]) === JSON.stringify(this.was[name]);
    if (this.job) return Object.fromEntries(Object.entries(said).filter(([name]) => !same(name)));
    const job = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== "" && value !== 0 && value.length !== 0));
    const recipe = this.form.elements.recipe.value;
    if (recipe) {
      job.recipe = recipe;
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
    const job = this.wanted();
    const asked = (this.asked = (this.asked ?? 0) + 1);
    if (!this.job && !job.recipe && !job.schedule && !job.every && !job.at) {
      this.preview.replaceChildren();
      return;
    }
    const words = this.job || job.recipe ? {} : { name: "preview", prompt: "preview" };
    try {
      const seen = await call(this.path, { ...words, ...job, preview: true });
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
      node("h2", "", runs.length === 1 ? "It runs" : "Next runs"),
      node("ol", "upcoming", ...runs),
      ...(seen.note ? [node("p", "warning", seen.note)] : []),
      facts(["May, without asking", seen.rules.length ? seen.rules.join(", ") : "what needs no permission"], ["Gets the secrets", seen.secrets.join(", ")]),
    );
  }

  get path() {
    return this.job ? `/api/v1/cron/${encodeURIComponent(this.job.name)}` : "/api/v1/cron";
  }

  async create() {
    const job = this.wanted();
    clearTimeout(this.timer);
    this.send.disabled = true;
    this.problem.textContent = "";
    try {
      const made = await call(this.path, job);
      this.board.toast(this.job ? `${made.name} is changed` : `${made.name} is scheduled`);
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
