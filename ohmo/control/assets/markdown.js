// CommonMark as people and models write it, into DOM nodes. Text never becomes markup: every node is made by hand, links are http(s) and mailto.

import { coloured } from "./colours.js";

const el = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

/** A fragment for `text`. */
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), fragment, 0);
  nest(fragment);
  return fragment;
}

/** A heading is at most one below the one before it, whatever was written: who hears the page walks along them. */
function nest(fragment) {
  let above = 1;
  for (const heading of fragment.querySelectorAll("h2, h3, h4, h5, h6")) {
    const wanted = Math.min(Number(heading.tagName[1]), above + 1);
    if (wanted !== Number(heading.tagName[1])) heading.replaceWith(el(`h${wanted}`, {}, ...heading.childNodes));
    above = wanted;
  }
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const MATH_OPENS = /^ {0,3}(\$\$|\\\[)/;
const DELIMITER = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function blocks(lines, into, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let match;
    if (!line.trim()) at += 1;
    else if ((match = FENCE.exec(line))) at = fenced(lines, at, match, into);
    else if ((match = MATH_OPENS.exec(line)) && (match = formula(lines, at, match[1]))) {
      into.append(el("div", { class: "math", tabindex: "0" }, match.text));
      at = match.next;
    } else if ((match = HEADING.exec(line))) {
      into.append(inline(match[2], el(`h${Math.min(match[1].length + 1, 6)}`)));
      at += 1;
    } else if (RULE.test(line)) {
      into.append(el("hr"));
      at += 1;
    } else if (QUOTE.test(line) && depth < 20) {
      const inner = [];
      while (at < lines.length && (QUOTE.test(lines[at]) || (lines[at].trim() && inner.length && inner.at(-1).trim() && !starts(lines[at])))) {
        inner.push(lines[at].replace(QUOTE, ""));
        at += 1;
      }
      const quote = el("blockquote");
      blocks(inner, quote, depth + 1);
      into.append(quote);
    } else if (ITEM.test(line) && depth < 20) at = list(lines, at, into, depth);
    else if (/^ {4}/.test(line)) {
      const code = [];
      while (at < lines.length && (/^ {4}/.test(lines[at]) || !lines[at].trim())) code.push(lines[at++].slice(4));
      into.append(code_block(code.join("\n").replace(/\n+$/, ""), ""));
    } else if (line.includes("|") && at + 1 < lines.length && DELIMITER.test(lines[at + 1]) && lines[at + 1].includes("-") && cells(line).length === cells(lines[at + 1]).length) at = table(lines, at, into);
    else {
      const words = [];
      while (at < lines.length && lines[at].trim() && (!words.length || !starts(lines[at]))) words.push(lines[at++]);
      into.append(inline(words.map((word) => word.trimStart()).join("\n"), el("p")));
    }
  }
}

/** A formula that stands for itself: its own text with its marks, and the line behind it; null: it does not end. */
function formula(lines, at, mark) {
  const end = mark === "$$" ? /\$\$[.,;]?\s*$/ : /\\\][.,;]?\s*$/;
  for (let there = at; there < lines.length && there - at < 200; there += 1) {
    const line = there === at ? lines[at].trimStart().slice(mark.length) : lines[there];
    if (end.test(line)) return { text: lines.slice(at, there + 1).join("\n").trim(), next: there + 1 };
    if (!line.trim() && there > at) return null;
  }
  return null;
}

/** Does this line end a paragraph? */
function starts(line) {
  const item = ITEM.exec(line);
  return FENCE.test(line) || MATH_OPENS.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || (item !== null && item[4] !== "" && (!/\d/.test(item[2]) || /^1[.)]$/.test(item[2])));
}

function fenced(lines, at, match, into) {
  const code = [];
  const end = new RegExp(`^ {0,3}${match[1][0] === "`" ? "`" : "~"}{${match[1].length},}\\s*$`);
  at += 1;
  while (at < lines.length && !end.test(lines[at])) code.push(lines[at++]);
  into.append(code_block(code.join("\n"), match[2].trim().split(/\s/)[0]));
  return at + 1;
}

function code_block(code, language) {
  const copy = el("button", { type: "button", class: "copy", "aria-label": "Copy this code", title: "Copy" });
  copy.innerHTML = '<svg aria-hidden="true"><use href="#i-copy"/></svg>';
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(code);
    copy.classList.add("done");
    setTimeout(() => copy.classList.remove("done"), 1200);
  });
  const head = el("figcaption", {}, el("span", {}, language), copy);
  return el("figure", { class: language ? "code" : "code bare" }, head, el("pre", { tabindex: "0" }, el("code", {}, ...coloured(code, language))));
}

function list(lines, at, into, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const box = el(ordered ? "ol" : "ul");
  const start = ordered ? Number.parseInt(first[2], 10) : 1;
  if (start !== 1) box.setAttribute("start", start);
  const mark = first[2].at(-1);
  let loose = false;
  const items = [];
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || RULE.test(lines[at]) || match[2].at(-1) !== mark || /\d/.test(match[2]) !== ordered) break;
    const indent = match[1].length + match[2].length + (match[4] ? Math.min(match[3].length, 4) : 1);
    const inner = [match[4]];
    at += 1;
    while (at < lines.length) {
      const line = lines[at];
      if (!line.trim()) {
        let there = at;
        while (there < lines.length && !lines[there].trim()) there += 1;
        const next = lines[there];
        if (next === undefined || (!next.startsWith(" ".repeat(indent)) && !ITEM.test(next))) break;
        if (!next.startsWith(" ".repeat(indent))) {
          loose = true;
          at += 1;
          break;
        }
        if (inner.some((other) => other.trim()) && !insideFence(inner)) loose = true;
        inner.push(...new Array(Math.min(there - at, 1000)).fill(""));
        at = there;
        continue;
      } else if (line.startsWith(" ".repeat(indent))) inner.push(line.slice(indent));
      else if (!ITEM.test(line) && !starts(line) && inner.at(-1).trim()) inner.push(line.trimStart());
      else if (/^ {2,}/.test(line) && ITEM.test(line.trimStart())) inner.push(line.trimStart());
      else break;
      at += 1;
    }
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
    items.push(inner);
  }
  for (const inner of items) {
    const item = el("li");
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) {
      inner[0] = inner[0].slice(task[0].length);
      item.className = "task";
      const check = el("input", { type: "checkbox", disabled: "", "aria-label": task[1] === " " ? "open" : "done" });
      check.checked = task[1] !== " ";
      item.append(check);
    }
    const body = document.createDocumentFragment();
    blocks(inner, body, depth + 1);
    for (const child of [...body.childNodes]) {
      if (!loose && child.nodeName === "P") item.append(...child.childNodes);
      else item.append(child);
    }
    box.append(item);
  }
  into.append(box);
  return at;
}

function insideFence(lines) {
  return lines.filter((line) => FENCE.test(line)).length % 2 === 1;
}

function cells(line) {
  const row = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  const found = [];
  let cell = "";
  for (let i = 0; i < row.length; i += 1) {
    if (row[i] === "\\" && row[i + 1] === "|") {
      cell += "|";
      i += 1;
    } else if (row[i] === "|") {
      found.push(cell.trim());
      cell = "";
    } else cell += row[i];
  }
  found.push(cell.trim());
  return found;
}

function table(lines, at, into) {
  const align = cells(lines[at + 1]).map((cell) => (/^:-+:$/.test(cell) ? "center" : /-:$/.test(cell) ? "right" : "left"));
  const row = (line, kind) => {
    const found = cells(line);
    return el("tr", {}, ...align.map((side, i) => inline(found[i] ?? "", el(kind, { class: side }))));
  };
  const head = el("thead", {}, row(lines[at], "th"));
  const body = el("tbody");
  at += 2;
  while (at < lines.length && lines[at].trim() && lines[at].includes("|")) body.append(row(lines[at++], "td"));
  into.append(el("div", { class: "table", tabindex: "0" }, el("table", {}, head, body)));
  return at;
}

const LINK = /^\[((?:[^[\]\\]|\\.|\[[^\]]*\])*)\]\(\s*<?((?:[^\s()<>\\]|\\.|\([^\s()]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/;
const AUTO = /^<((?:https?:\/\/|mailto:)[^\s<>]*)>/i;
const BARE = /^https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_~]/i;
const PUNCTUATION = /[!-/:-@[-`{-~]/;

// As channels/text.py has it for the other platforms.
const WEB = /^https?:\/\/[^\s/?#@\\<>]+(?:[/?#][^\s\\<>]*)?$/i;
const MAIL = /^mailto:([^\s<>\\?]+)(?:\?[^\s<>\\]*)?$/i;
const FARTHEST = 200; // characters: what touches a link
const LIKE_ADDRESS = /\S[.。:/@\\]\S/;

function safe(url) {
  return MAIL.test(url) || (WEB.test(url) && URL.canParse(url));
}

/** Where a link really leads, to stand behind it, when what is read there looks like another address; "": nothing to tell. */
function disclosed(link, before, after) {
  const seen = (text) => text.normalize("NFKC").replace(/\p{Cf}/gu, "").trim();
  const words = seen(link.textContent);
  const around = seen(/\S*$/.exec(before.slice(-FARTHEST))[0] + link.textContent + /^\S*/.exec(after.slice(0, FARTHEST))[0]);
  if (!LIKE_ADDRESS.test(`${words} ${around}`)) return "";
  const url = link.getAttribute("href");
  const there = MAIL.exec(url)?.[1] ?? new URL(url).hostname;
  const rest = words.toLowerCase().replace(/^(?:https?:\/\/|mailto:)/, "");
  const own = rest.startsWith(there.toLowerCase()) && /^(?:(?::\d+)?(?:[/?#]\S*)?)$/.test(rest.slice(there.length));
  return own ? "" : ` (${there})`;
}

/** Says of every link in `node` where it leads, where its words do not. */
function disclose(node) {
  for (const link of node.querySelectorAll("a")) {
    const before = document.createRange();
    const after = document.createRange();
    before.setStart(node, 0);
    before.setEndBefore(link);
    after.setStartAfter(link);
    after.setEnd(node, node.childNodes.length);
    const host = disclosed(link, before.toString(), after.toString());
    if (host) link.after(host);
  }
}

function anchor(url, ...children) {
  return el("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, ...children);
}

/** Where the run of backticks that ends a code span begins: one exactly as long (CommonMark 6.1); -1: there is none. */
function closing(text, fence, from) {
  for (let end = text.indexOf(fence, from); end >= 0; ) {
    let after = end + fence.length;
    if (text[after] !== "`") return end;
    while (text[after] === "`") after += 1;
    end = text.indexOf(fence, after);
  }
  return -1;
}

// Formulas stay as they were written: nothing in them is a mark of Markdown. A dollar as Pandoc has it ("$5 and $6" is money); without any sign of a
// formula the marks are what they are elsewhere.
const MATH = /\$\$([^$]+)\$\$|\\\(((?:[^\\]|\\(?!\)))+)\\\)|\\\[((?:[^\\]|\\(?!\]))+)\\\]|\$(?=[^\s$])((?:[^$\\\n]|\\.)*[^\s$\\]|[^\s$\\])\$(?!\d)/y;
const FORMULA = /[\\^_{=*+<>]|^\s*[A-Za-z]\s*$/;

/** The formula that begins at `at`, with its marks; "": none does. */
function math(text, at) {
  MATH.lastIndex = at;
  const match = MATH.exec(text);
  return match && FORMULA.test(match[1] ?? match[2] ?? match[3] ?? match[4]) ? match[0] : "";
}

// What is longer is shown as it is: the searches below begin anew at every mark, so a stranger's wall of brackets would freeze the page.
const LONGEST = 10_000;

/** Marks inside a line, into `node`. `linked`: it stands in a link already, and a link holds no other. */
function inline(text, node, depth = 0, linked = false) {
  if (text.length > LONGEST) {
    node.append(text);
    return node;
  }
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) node.append(plain);
    plain = "";
  };
  const put = (child, length) => {
    flush();
    node.append(child);
    at += length;
  };
  while (at < text.length) {
    const rest = text.slice(at);
    const c = text[at];
    let match;
    if ((c === "$" || c === "\\") && (match = math(text, at))) put(el("span", { class: "math" }, match), match.length);
    else if (c === "\\" && PUNCTUATION.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else if (c === "\n") put(el("br"), 1);
    else if (c === "`") {
      const fence = /^`+/.exec(rest)[0];
      const end = closing(text, fence, at + fence.length);
      if (end < 0) {
        plain += fence;
        at += fence.length;
      } else put(el("code", {}, text.slice(at + fence.length, end).replace(/\n/g, " ").replace(/^ (.*[^ ].*) $/, "$1")), end + fence.length - at);
    }
    else if (c === "!" && (match = LINK.exec(rest.slice(1)))) {
      const label = match[1] || match[2];
      const url = match[2].replace(/\\(.)/g, "$1");
      put(safe(url) && !linked ? anchor(url, label) : document.createTextNode(label), match[0].length + 1);
    } else if (c === "[" && !linked && depth < 10 && (match = LINK.exec(rest))) {
      const url = match[2].replace(/\\(.)/g, "$1");
      put(inline(match[1], safe(url) ? anchor(url) : el("span"), depth + 1, safe(url)), match[0].length);
    } else if (c === "<" && !linked && (match = AUTO.exec(rest)) && safe(match[1])) put(anchor(match[1], match[1].replace(/^mailto:/i, "")), match[0].length);
    else if (c === "h" && !linked && !/\w/.test(text[at - 1] ?? "") && (match = BARE.exec(rest)) && safe(match[0])) put(anchor(match[0], match[0]), match[0].length);
    else if ((c === "*" || c === "_" || c === "~") && depth < 10 && (match = emphasis(text, at))) put(inline(match.inner, el(match.tag), depth + 1, linked), match.length);
    else {
      plain += c;
      at += 1;
    }
  }
  flush();
  if (depth === 0) disclose(node);
  return node;
}

/** What begins at `at`, if its end is there: flanking rules of CommonMark, without its rule of three. */
function emphasis(text, at) {
  const c = text[at];
  let run = 1;
  while (text[at + run] === c) run += 1;
  const word = (character) => character !== undefined && /[\p{L}\p{N}_]/u.test(character);
  const space = (character) => character === undefined || /\s/.test(character);
  if (space(text[at + run]) || (c === "_" && word(text[at - 1]))) return null;
  for (const size of c === "~" ? [2] : run >= 3 ? [3, 2, 1] : run === 2 ? [2] : [1]) {
    if (size > run) continue;
    let from = at + size;
    while ((from = text.indexOf(c.repeat(size), from)) > 0) {
      let end = from;
      while (text[end] === c) end += 1;
      const inner = text.slice(at + size, from);
      const closes = !space(text[from - 1]) && !(c === "_" && word(text[end])) && inner.length > 0 && !inner.includes("\n\n");
      const whole = end - from === size || size === 3 || (size === 1 && (end - from) % 2 === 1) || (size === 2 && end - from > 2);
      if (closes && whole && !cutsCode(inner)) {
        const tag = c === "~" ? "s" : size === 1 ? "em" : "strong";
        return { tag, inner: size === 3 ? `${c}${inner}${c}` : inner, length: size * 2 + inner.length };
      }
      from = end;
    }
  }
  return null;
}

function cutsCode(inner) {
  return (inner.match(/`/g) ?? []).length % 2 === 1;
}
