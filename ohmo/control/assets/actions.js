// What can be done with one message: copy it, ask again, edit and send it anew.

import { copy, icon } from "./pieces.js";
import { node } from "./transcript.js";

function action(name, label, act) {
  const made = node("button", "icon tiny", icon(name));
  made.type = "button";
  made.title = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function waiting(entry, takeBack, steer) {
  const box = node("div", "actions shown", icon("clock"), node("span", "", "waits its turn"));
  const word = (label, act) => {
    const made = node("button", "text", label);
    made.type = "button";
    made.addEventListener("click", () => act(entry));
    return made;
  };
  if (entry.text && !entry.files?.length && !entry.command && !entry.text.startsWith("/steer ")) box.append(word("Read it now", steer));
  box.append(word("Take back", takeBack));
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Waits its turn");
  return box;
}

/** The row of buttons below `entry`, or null. `again(entry)`: sends what it is, or what it answers, once more; `edit(entry)`: into the message box. What still waits for
    its turn can be taken back instead, or be read in the turn that runs (`steer`). */
export function actions(entry, { again, edit, takeBack, steer }) {
  if (entry.waits) return waiting(entry, takeBack, steer);
  const box = node("div", "actions");
  if (entry.text) box.append(copy(entry.text, "Copy this message"));
  const own = entry.kind === "person" && !entry.origin;
  if (own) box.append(action("pen", "Edit and send anew", () => edit(entry)));
  if (own || (entry.kind === "agent" && !entry.notice)) box.append(action("retry", own ? "Send again" : "Ask again", () => again(entry)));
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Actions");
  return box.childElementCount ? box : null;
}
