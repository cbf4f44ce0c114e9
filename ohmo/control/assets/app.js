// The page: the parts and how they know each other.

import { Chats } from "./chats.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { Following } from "./following.js";
import { GO, Keyboard } from "./keyboard.js";
import { newKey, Outbox } from "./outbox.js";
import { Notifier } from "./notify.js";
import { Palette } from "./palette.js";
import { Places } from "./places.js";
import { StatusBoard } from "./status.js";
import { Terms } from "./terms.js";
import { welcome } from "./welcome.js";
import { call } from "./wire.js";

const $ = (id) => document.getElementById(id);
const boxes = (...names) => Object.fromEntries(names.map((name) => [name, $(name)]));
const narrow = matchMedia("(max-width: 760px)");

let current = null; // the open conversation
let status = null; // what the house said last
let door = false;

let toastTimer;
function toast(text) {
  const box = $($("board").hidden ? "toast" : "board-toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 5000);
}

// Login.

/** Logged in? True also when nobody answers: then the outbox keeps what is typed. */
async function known() {
  try {
    if ((await call("/api/v1/known")).known) return true;
  } catch {
    return true;
  }
  showDoor();
  return false;
}
function showDoor() {
  if (door) return;
  door = true;
  house.end();
  places.board?.leave();
  current?.close();
  $("door").hidden = false;
  $("shell").inert = true;
}

// The chat.

const outbox = new Outbox(() => current?.drawWaiting());
const following = new Following($("scroll"), $("to-end"));

const chats = new Chats(
  { list: $("chats"), title: $("title"), find: $("find-chat"), shelf: $("shelf") },
  {
    here: () => current?.chat,
    read: ({ commands, max_file, max_text }) => Object.assign(composer, { known: commands, limit: max_file, longest: max_text }),
    turned: () => menu(false),
    left: () => $("new-chat").click(),
    toast,
  },
);

const composer = new Composer(boxes("draft", "send", "stop", "attach", "file", "attached", "commands", "composer"), {
  say: (text, attachments) => {
    outbox.say(current.chat, text, attachments);
    following.toEnd();
  },
  halt: () => outbox.say(current.chat, "/stop"),
  toast,
});

const terms = new Terms(boxes("terms", "composer"), (line) => outbox.say(current.chat, line));

function drawEmpty() {
  const empty = $("empty");
  empty.hidden = !current?.loaded || current.fold.entries.length > 0 || outbox.of(current.chat).length > 0;
  if (empty.hidden) return;
  const begin = (line) => {
    $("draft").value = line;
    composer.typed();
    $("draft").focus();
  };
  empty.replaceChildren(...welcome(status, begin));
}

function linkState(state) {
  $("link").className = `link ${state}`;
  $("link").textContent = state === "lost" ? "reconnecting…" : "";
}

const places = new Places(
  { ...boxes("chat", "board", "places", "recent"), title: $("board-title"), tools: $("board-tools"), body: $("board-body"), link: $("board-link") },
  {
    talk: (chat) => {
      if (current?.chat !== chat) {
        current?.close();
        $("empty").hidden = true;
        current = new Conversation(chat, { boxes: boxes("earlier", "transcript", "now", "waiting", "empty", "stop"), outbox, following, toast, link: linkState, lost: known, listed: () => (chats.refresh(), house.soon()), stirred: () => terms.soon(), counted: () => house.soon(), settled: drawEmpty, edit: (entry) => composer.edit(entry) });
        composer.turnTo(chat);
        const talk = current;
        terms.turnTo(chat, (wait) => talk.queue(wait));
      }
      chats.draw();
      menu(false);
      if (!narrow.matches) $("draft").focus();
    },
    leave: () => {
      current?.close();
      current = null;
      drawer(false);
      menu(false);
      chats.draw();
    },
    toast,
    counted: () => house.soon(),
    lost: known,
  },
);

// Status: dots, drawer, and what waits for the owner.

const house = new StatusBoard({
  dots: $("channels"),
  facts: $("facts"),
  told: (told) => {
    const before = status?.provider;
    status = told ?? status;
    if (!told) return;
    if (before !== told.provider) drawEmpty();
    current?.stream.hurry();
    badges(told);
    drawTitle();
    notifier.told(told.turns_parked + (told.asking ?? 0));
  },
});

/** What waits for the owner, beside the places where it is dealt with. */
function badges(told) {
  const all = told.turns_parked + (told.asking ?? 0);
  const dead = (told.inbox.dead ?? 0) + (told.outbox.dead ?? 0);
  for (const [id, number, words] of [["count-all", all + dead, "waiting for you"], ["count-approvals", told.turns_parked, "waiting"], ["count-dead", dead, "failed"], ["count-people", told.asking ?? 0, "ask to be let in"]]) {
    $(id).hidden = number === 0;
    $(id).textContent = number > 99 ? "99+" : number ? String(number) : "";
    $(id).setAttribute("aria-label", `${number} ${words}`);
  }
}

const notifier = new Notifier($("notify"));
let titled = "";
/** What is open, and how much waits for the owner, in the tab. */
function drawTitle() {
  const waits = (status?.turns_parked ?? 0) + (status?.asking ?? 0);
  document.title = `${waits ? `(${waits}) ` : ""}${titled ? `${titled} · ` : ""}ohmo`;
}
document.addEventListener("titled", (event) => {
  titled = event.detail;
  drawTitle();
});

// Menu, drawer, colours, keys.

function menu(open) {
  $("shell").classList.toggle("menu-open", open);
}
function drawer(open) {
  $("drawer").hidden = !open;
  for (const id of ["open-status", "channels"]) $(id).setAttribute("aria-expanded", String(open));
  $("shell").classList.toggle("drawer-open", open);
  if (open) {
    house.refresh();
    $("close-drawer").focus();
  }
}
function drawTheme() {
  const words = `Colours: ${{ light: "light", dark: "dark" }[document.documentElement.dataset.theme] ?? "as the system"}`;
  $("theme").setAttribute("aria-label", words);
  $("theme").title = words;
}

const clicks = {
  theme: () => {
    document.documentElement.turnTheme();
    drawTheme();
  },
  "new-chat": () => places.go(`c${newKey(15)}`),
  "open-menu": () => menu(true),
  "board-menu": () => menu(true),
  "close-menu": () => menu(false),
  scrim: () => {
    menu(false);
    drawer(false);
  },
  "log-out": async () => {
    try {
      await call("/api/v1/logout", {});
      location.reload();
    } catch (error) {
      toast(error.message);
    }
  },
  "open-status": () => drawer($("drawer").hidden),
  channels: () => {
    menu(false);
    drawer($("drawer").hidden);
  },
  "close-drawer": () => {
    drawer(false);
    $("open-status").focus();
  },
  places: (event) => event.target.closest("a") && menu(false),
  skip: (event) => {
    event.preventDefault();
    (places.path() ? $("board-body") : $("draft")).focus();
  },
};
for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
drawTheme();

const goTo = (place) => (location.hash = place === "chat" ? "#/chat" : `#/${place}`);
const palette = new Palette($("palette"), [["New chat", () => $("new-chat").click()], ...GO.map(([place, words]) => [words, () => goTo(place)])], (chat) => places.go(chat));

new Keyboard({
  dialog: $("keys"),
  go: goTo,
  find: () => palette.open(),
  view: (key) => places.path() !== null && (places.board?.key(key) ?? false),
  theme: () => $("theme").click(),
  newChat: () => $("new-chat").click(),
  closed: () => door,
}).begin($("help"));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!$("drawer").hidden) drawer(false);
  else if ($("shell").classList.contains("menu-open")) menu(false);
  else if (places.path()) return;
  else if (!$("stop").hidden) outbox.say(current.chat, "/stop");
});

function hurry() {
  current?.stream.hurry();
  places.board?.hurry();
}
/** Somebody may have logged in meanwhile, with the link in another tab. */
async function tryDoor() {
  const answer = await call("/api/v1/known").catch(() => ({}));
  if (answer.known) location.reload();
}
document.addEventListener("stranger", showDoor);
addEventListener("hashchange", () => door || places.turn());
addEventListener("online", hurry);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && (door ? tryDoor() : hurry()));

if (location.hash === "#login-failed") {
  history.replaceState(null, "", "/");
  toast("This login link was used already, or is too old");
}
if (await known()) {
  await chats.refresh();
  house.begin();
  places.turn();
  outbox.flush();
  setInterval(() => document.visibilityState === "visible" && !door && chats.refresh(), 15_000);
}
