// The page: one chat at a time, shown as the store has it, with what happens live below it.

import { Cards } from "./cards.js";
import { Composer } from "./composer.js";
import { Fold } from "./fold.js";
import { Keyboard } from "./keyboard.js";
import { markdown } from "./markdown.js";
import { newKey, Outbox } from "./outbox.js";
import { offline, StatusBoard } from "./status.js";
import { icon, node, Transcript } from "./transcript.js";
import { call, Stream } from "./wire.js";

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 760px)");

let toastTimer;
function toast(text) {
  const box = $($("board").hidden ? "toast" : "board-toast");
  box.textContent = text;
  box.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("shown"), 5000);
}

const outbox = new Outbox(() => {
  current?.drawWaiting();
});
let current = null;
let chats = [];
let status = null;

// One conversation.

class Conversation {
  constructor(chat) {
    this.chat = chat;
    this.fold = new Fold();
    this.cards = new Cards(outbox, chat, toast, (entry) => this.redraw(entry));
    this.transcript = new Transcript($("transcript"), this.cards);
    this.thread = null;
    this.turn = "";
    this.doing = "";
    this.preview = "";
    this.stale = "";
    this.asides = [];
    this.lines = [];
    this.typing = false;
    this.loaded = false;
    for (const id of ["transcript", "now", "waiting"]) $(id).replaceChildren();
    this.stream = new Stream(`chat=${encodeURIComponent(chat)}`, (kind, data) => this.hear(kind, data), (state) => this.linked(state), () => this.fold.unsettled());
    this.drawWaiting();
  }

  close() {
    this.stream.close();
    cancelAnimationFrame(this.frame);
  }

  hear(kind, data) {
    const stick = atEnd();
    switch (kind) {
      case "item":
        this.item(data);
        break;
      case "ready":
        this.loaded = true;
        this.drawNow();
        drawEmpty();
        if (!this.settled) toEnd();
        this.settled = true;
        return;
      case "snapshot":
        this.turn = data.turn;
        this.doing = data.status;
        break;
      case "preview":
        this.preview = this.preview.slice(0, data.keep) + data.text;
        break;
      case "typing":
        this.typing = data.on;
        break;
      case "revised": {
        const entry = this.fold.byRow.get(data.message.replace(/\.0$/, ""));
        if (entry && !entry.closed) this.transcript.show([Object.assign(entry, { text: data.text })]);
        break;
      }
      case "post_state":
        this.transcript.show(this.fold.settle(data));
        break;
      case "notice":
        toast(data.text);
        break;
      case "turn_started":
        Object.assign(this, { turn: data.turn, doing: "" });
        break;
      case "turn_ended":
        Object.assign(this, { turn: "", stale: this.preview, doing: "", typing: false });
        this.asides = this.asides.filter((aside) => aside.turn !== data.turn);
        if (this.thread) this.cards.refresh(this.thread).catch(() => {});
        listChats();
        break;
      case "tool_started":
        this.doing = data.summary || data.name;
        this.lines = [`_${data.name}: ${data.summary}_`, `_${data.name}_`];
        break;
      case "tool_progress":
      case "status":
        this.doing = data.text.slice(0, 200);
        if (kind === "status") this.lines = [`_${data.text}_`];
        break;
      case "tool_done":
        this.doing = "";
        break;
      case "failure":
        if (data.fatal) toast(data.text);
        else this.doing = data.text.slice(0, 200);
        break;
    }
    this.later(stick);
  }

  item(item) {
    const first = this.thread === null;
    this.thread = item.thread;
    const changed = this.fold.take(item);
    this.transcript.show(changed);
    for (const entry of changed) {
      if (entry.message) outbox.seen(entry.message);
      if (entry.kind === "aside") this.asides.push({ turn: item.turn, text: entry.text });
    }
    if (item.type === "out_row") {
      this.stale = this.preview; // what was previewed is durable now, or makes room for it
      if (item.row.outbound.choices.length || item.row.target || this.loaded) this.ask();
    }
    if (first && this.loaded) listChats();
    $("empty").hidden = true;
  }

  /** Soon, once: which questions are open? */
  ask() {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.cards.refresh(this.thread).catch(() => {}), 30);
  }

  redraw(entry) {
    const stick = atEnd();
    const entries = entry ? [entry] : this.fold.entries.filter((other) => other.kind === "agent" && (other.card || this.cards.touched.has(other.row)));
    const focused = document.activeElement?.closest(".words") ? document.activeElement.closest(".turn") : null;
    this.transcript.show(entries.filter((other) => this.transcript.nodes.get(other.id) !== focused));
    if (stick) toEnd();
  }

  linked(state) {
    if (state === "lost") {
      Object.assign(this, { preview: "", turn: "", typing: false, doing: "" });
      this.drawNow();
      known();
    }
    if (state === "open") outbox.flush();
    linkState(state);
  }

  later(stick) {
    cancelAnimationFrame(this.frame);
    this.stick = this.stick || stick;
    const draw = () => {
      this.drawNow();
      if (this.stick) toEnd();
      this.stick = false;
    };
    if (document.visibilityState === "hidden") draw();
    else this.frame = requestAnimationFrame(draw);
  }

  /** The preview without what is durable already, and without its line about the tool, which is shown below it. Previews and turns come from two sources, so neither resets the other. */
  said() {
    let text = this.preview === this.stale ? "" : this.preview;
    for (const aside of this.asides) if (text.trimStart().startsWith(aside.text)) text = text.trimStart().slice(aside.text.length);
    text = text.trim();
    const line = this.lines.find((end) => text.endsWith(end));
    return line === undefined ? text : text.slice(0, -line.length).trim();
  }

  drawNow() {
    const said = this.said();
    const busy = this.turn !== "" || this.typing;
    const children = [];
    if (said) {
      const words = node("div", "md");
      words.append(markdown(said));
      children.push(node("article", "turn agent streaming", node("div", "inner", words)));
    }
    if (busy && (!said || this.doing)) {
      const label = this.doing || "thinking";
      children.push(node("div", "turn busy", node("span", "dots", node("i", ""), node("i", ""), node("i", "")), node("span", "doing", label)));
    }
    $("now").replaceChildren(...children);
    $("transcript").setAttribute("aria-busy", String(busy));
    $("stop").hidden = !busy;
  }

  drawWaiting() {
    const stick = atEnd();
    const seen = this.fold.byMessage;
    const rows = outbox.of(this.chat).filter((entry) => !seen.has(entry.key));
    $("waiting").replaceChildren(...rows.map((entry) => waiting(entry)));
    if (rows.length) $("empty").hidden = true;
    if (stick) toEnd();
  }
}

function waiting(entry) {
  const bubble = node("div", "bubble");
  if (entry.body.text) bubble.append(node("p", "plain", entry.body.text));
  for (const file of entry.body.attachments ?? []) bubble.append(node("p", "file", icon("file"), file.name));
  const made = node("article", `turn person pending${entry.refused === undefined ? "" : " failed"}`, bubble);
  made.setAttribute("aria-label", "You, not sent yet");
  if (entry.refused === undefined) made.append(node("span", "stamp", icon("clock"), "sending"));
  else {
    const again = node("button", "text", "Try again");
    again.addEventListener("click", () => outbox.again(entry.key));
    const drop = node("button", "text", "Remove");
    drop.addEventListener("click", () => outbox.remove(entry.key));
    made.append(node("p", "refused", `${entry.refused} `, again, " ", drop));
  }
  return made;
}

// Scrolling: the newest is followed only by who is there already.

const scroll = $("scroll");
function atEnd() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
}
function toEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}
scroll.addEventListener("scroll", () => ($("to-end").hidden = atEnd()), { passive: true });
$("to-end").addEventListener("click", toEnd);
new ResizeObserver(() => !$("to-end").hidden || toEnd()).observe(scroll);

// Connection and login.

function linkState(state) {
  $("link").className = `link ${state}`;
  $("link").textContent = state === "lost" ? "reconnecting…" : "";
}

let door = false;
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
  door = true;
  house.end();
  $("door").hidden = false;
  $("shell").inert = true;
}

// Chats.

const board = { on: null, loading: null }; // the dashboard, loaded when somebody goes there

/** ["threads", "ID"] of #/threads/ID; null: the chat is wanted. */
function pathOfPage() {
  const path = location.hash.startsWith("#/") ? location.hash.slice(2).split("/") : [];
  return path.length && path[0] !== "chat" ? path : null;
}

async function turnToBoard(path) {
  current?.close();
  current = null;
  drawer(false);
  menu(false);
  $("chat").hidden = true;
  $("board").hidden = false;
  drawChats();
  markPlace(path[0]);
  try {
    board.loading ??= import("./board.js");
    const { Board } = await board.loading;
    if (pathOfPage()?.join("/") !== path.join("/")) return; // somebody went on meanwhile
    if (!Board.knows(path[0])) return location.replace("#/threads");
    board.on ??= new Board({ title: $("board-title"), tools: $("board-tools"), body: $("board-body"), link: $("board-link"), toast, counted: () => house.soon() });
    board.on.show(path);
    if (!document.activeElement || document.activeElement === document.body || document.activeElement.closest("#chat")) $("board-body").focus({ preventScroll: true });
  } catch {
    board.loading = null;
    toast("This part of the page could not be loaded; try again in a moment");
  }
}

function markPlace(name) {
  for (const link of $("places").children) {
    if (link.dataset.place === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function turn() {
  const path = pathOfPage();
  if (path) {
    turnToBoard(path);
    return;
  }
  board.on?.leave();
  $("board").hidden = true;
  $("chat").hidden = false;
  markPlace("chat");
  turnTo();
}

function chatOfPage() {
  return new URLSearchParams(location.hash.slice(1)).get("chat");
}

function go(chat) {
  if (chatOfPage() === chat) turn();
  else location.hash = `chat=${chat}`;
}

let lastChat; // where one comes back to from the dashboard

function turnTo() {
  const chat = chatOfPage();
  if (!chat || !/^[0-9A-Za-z:_-]{1,64}$/.test(chat)) {
    history.replaceState(null, "", `#chat=${lastChat ?? chats[0]?.chat ?? `c${newKey(15)}`}`);
    turnTo();
    return;
  }
  lastChat = chat;
  if (current?.chat !== chat) {
    current?.close();
    current = null;
    $("empty").hidden = true;
    current = new Conversation(chat);
    composer.turnTo(chat);
  }
  drawChats();
  menu(false);
  if (!narrow.matches) $("draft").focus();
}

async function listChats() {
  try {
    const answer = await call("/api/v1/web/chats");
    chats = answer.chats;
    composer.known = answer.commands;
    composer.limit = answer.max_file;
    drawChats();
  } catch (error) {
    if (error.status === 401) showDoor();
  }
}

function drawChats() {
  const here = current?.chat;
  const known = chats.some((chat) => chat.chat === here);
  const rows = known || !here ? chats : [{ chat: here, title: "", state: "idle" }, ...chats];
  $("chats").replaceChildren(
    ...rows.map((chat) => {
      const link = node("a", "", node("span", "", chat.title || "New chat"));
      link.href = `#chat=${encodeURIComponent(chat.chat)}`;
      if (chat.chat === here) link.setAttribute("aria-current", "page");
      if (chat.state === "parked") link.append(node("i", "dot busy"));
      link.addEventListener("click", () => chat.chat === here && menu(false));
      return node("li", "", link);
    }),
  );
  const title = rows.find((chat) => chat.chat === here)?.title || "New chat";
  $("title").textContent = title;
  if (here) document.title = title === "New chat" ? "ohmo" : `${title} · ohmo`;
}

// The empty page says what to do.

const IDEAS = ["What can you do here?", "Summarise the files in my workspace", "Find every TODO in this project"];
const BY_HAND = ["Bash: ls -la", "run Write file_path=notes.txt content=hello", "run Read file_path=notes.txt"];

function setup(why) {
  const help = node("div", "setup");
  help.append(
    markdown(
      "**No model is configured yet.** Until then I answer honestly that I cannot think, but I can run a tool you name, so you can try permissions; three to begin with stand below.\n\n" +
        "1. Put `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` into the environment, or start a model server on this machine (LM Studio, Ollama, vLLM).\n" +
        "2. Stop and start `ohmo run`: it finds them by itself.\n\nAny other endpoint: `profiles.default.base_url` in `config.yaml`.",
    ),
  );
  help.append(node("p", "muted", why));
  return help;
}

function ideas(lines) {
  const box = node("div", "ideas");
  for (const line of lines) {
    const button = node("button", "", line);
    button.type = "button";
    button.addEventListener("click", () => {
      $("draft").value = line;
      composer.typed();
      $("draft").focus();
    });
    box.append(button);
  }
  return box;
}

function drawEmpty() {
  const empty = $("empty");
  empty.hidden = !current?.loaded || current.fold.entries.length > 0 || outbox.of(current.chat).length > 0;
  if (empty.hidden) return;
  const parts = [node("h2", "", "What shall we do?")];
  if (offline(status)) parts.push(setup(status.provider));
  parts.push(ideas(offline(status) ? BY_HAND : IDEAS));
  empty.replaceChildren(...parts);
}

// Menu, drawer, keys.

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

const composer = new Composer(
  { form: $("composer"), draft: $("draft"), send: $("send"), stop: $("stop"), attach: $("attach"), file: $("file"), attached: $("attached"), commands: $("commands") },
  {
    say: (text, attachments) => {
      outbox.say(current.chat, text, attachments);
      toEnd();
    },
    halt: () => outbox.say(current.chat, "/stop"),
    toast,
  },
);

const house = new StatusBoard({
  dots: $("channels"),
  facts: $("facts"),
  told: (told, error) => {
    if (error?.status === 401) showDoor();
    const before = status?.provider;
    status = told ?? status;
    if (told && before !== told.provider) drawEmpty();
    if (told) current?.stream.hurry();
    if (told) badges(told);
  },
});

/** What waits for the owner, beside the places where it is dealt with. */
function badges(told) {
  const dead = (told.inbox.dead ?? 0) + (told.outbox.dead ?? 0);
  for (const [id, number, words] of [["count-approvals", told.turns_parked, "waiting"], ["count-dead", dead, "dead letters"]]) {
    $(id).hidden = number === 0;
    $(id).textContent = number > 99 ? "99+" : number ? String(number) : "";
    $(id).setAttribute("aria-label", `${number} ${words}`);
  }
}

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (pathOfPage() ? $("board-body") : $("draft")).focus();
});
$("board-menu").addEventListener("click", () => menu(true));
$("places").addEventListener("click", (event) => event.target.closest("a") && menu(false));
drawTheme();
$("theme").addEventListener("click", () => {
  document.documentElement.turnTheme();
  drawTheme();
});
function drawTheme() {
  const words = `Colours: ${{ light: "light", dark: "dark" }[document.documentElement.dataset.theme] ?? "as the system"}`;
  $("theme").setAttribute("aria-label", words);
  $("theme").title = words;
}
new Keyboard({
  dialog: $("keys"),
  go: (place) => (location.hash = place === "chat" ? "#/chat" : `#/${place}`),
  view: (key) => pathOfPage() !== null && (board.on?.key(key) ?? false),
  theme: () => $("theme").click(),
  newChat: () => $("new-chat").click(),
  closed: () => door,
}).begin($("help"));

$("new-chat").addEventListener("click", () => go(`c${newKey(15)}`));
$("open-menu").addEventListener("click", () => menu(true));
$("close-menu").addEventListener("click", () => menu(false));
$("scrim").addEventListener("click", () => {
  menu(false);
  drawer(false);
});
$("open-status").addEventListener("click", () => drawer($("drawer").hidden));
$("channels").addEventListener("click", () => {
  menu(false);
  drawer($("drawer").hidden);
});
$("close-drawer").addEventListener("click", () => {
  drawer(false);
  $("open-status").focus();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!$("drawer").hidden) drawer(false);
  else if ($("shell").classList.contains("menu-open")) menu(false);
  else if (pathOfPage()) return;
  else if (!$("stop").hidden) outbox.say(current.chat, "/stop");
});
addEventListener("hashchange", turn);
function hurry() {
  current?.stream.hurry();
  board.on?.hurry();
}
addEventListener("online", hurry);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && hurry());

if (location.hash === "#login-failed") {
  history.replaceState(null, "", "/");
  toast("This login link was used already, or is too old");
}
if (await known()) {
  await listChats();
  house.begin();
  turn();
  outbox.flush();
  setInterval(() => document.visibilityState === "visible" && !door && listChats(), 15_000);
}
