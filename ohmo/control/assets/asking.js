// One open question with its buttons, wherever it is shown in the dashboard.

import { button, copy, icon, node, place, when } from "./pieces.js";
import { body } from "./transcript.js";
import { call } from "./wire.js";

/** What a choice of a permission means to the API; a choice of a question is its words. */
function meaning(question, choice) {
  if (question.kind === "question") return { verdict: "allowed", word: choice.label };
  const value = choice.value.split(":").at(-1);
  return value === "deny" ? { verdict: "denied" } : { verdict: "allowed", scope: ["session", "always", "workspace"].includes(value) ? value : "once" };
}

/** `answered()` is called when the house took the answer, or says it is too late. */
export function asking(asked, toast, answered) {
  const { question } = asked.ask;
  const words = body(question.detail || "");
  const controls = node("div", "choices");
  const say = async (body) => {
    for (const each of controls.querySelectorAll("button, input")) each.disabled = true;
    try {
      await call(`/api/v1/approvals/${encodeURIComponent(asked.ask.id)}`, body);
    } catch (error) {
      toast(error.message);
      if (error.status !== 409 && error.status !== 404) {
        for (const each of controls.querySelectorAll("button, input")) each.disabled = false;
        return;
      }
    }
    answered();
  };
  question.choices.forEach((choice, number) => {
    const made = button(choice.label, `choice ${choice.style}`, () => say(meaning(question, choice)));
    made.title = `Press ${number + 1}`;
    controls.append(made);
  });
  if (question.kind === "question") controls.append(inWords(question, say));
  if (asked.state === "queued") controls.replaceChildren(node("p", "muted", "Another question of this conversation comes first."));
  const inner = node("div", "inner", node("h2", "", question.title), words, node("p", "muted where", who(asked), " in ", thread(asked), asked.deadline ? when(asked.deadline, " · ends ") : "", copy(asked.ask.id, "Copy the id")), controls);
  const card = node("article", "card turn ask", node("div", "card-icon", icon(question.kind === "question" ? "ask" : "shield")), inner);
  card.setAttribute("aria-label", question.title);
  card.tabIndex = 0;
  card.dataset.row = "";
  return card;
}

function who(asked) {
  return asked.who ? `for ${asked.who} (${asked.person})` : `for ${asked.person}`;
}

function thread(asked) {
  const link = node("a", "", place(asked.address));
  link.href = `#/threads/${encodeURIComponent(asked.thread)}`;
  return link;
}

function inWords(question, say) {
  const field = node("input", "");
  field.type = "text";
  field.placeholder = question.choices.length ? "or say it in your own words" : "Your answer";
  field.setAttribute("aria-label", "Answer in your own words");
  const send = node("button", "choice good", "Answer");
  send.type = "submit";
  const form = node("form", "words", field, send);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) say({ verdict: "allowed", word: field.value.trim() });
  });
  return form;
}
