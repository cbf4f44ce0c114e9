// What a change does, line by line. Pure but for the last function, which draws it.

import { node } from "./transcript.js";

const MOST = 400; // lines of each side that are compared; longer texts are shown as removed and added

/** [[sign, line]], sign "-", "+" or " ". */
export function diff(before, after) {
  const [old, now] = [before, after].map((text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n")));
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  const middle = between(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  return [...same(old.slice(0, head)), ...middle, ...same(old.slice(old.length - tail))];
}

/** By the longest common subsequence. */
function between(old, now) {
  if (old.length > MOST || now.length > MOST) return [...old.map((line) => ["-", line]), ...now.map((line) => ["+", line])];
  const length = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) length[i][j] = old[i] === now[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push([" ", old[i]]);
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && length[i + 1][j] >= length[i][j + 1])) found.push(["-", old[i++]]);
    else found.push(["+", now[j++]]);
  }
  return found;
}

const KIND = { "-": "code-removed", "+": "code-added", " ": "" };

export function drawn(before, after) {
  const lines = diff(before, after).map(([sign, line]) => node("span", `diff-line ${KIND[sign]}`, `${sign} ${line}\n`));
  const box = node("pre", "", node("code", "", ...lines));
  box.tabIndex = 0;
  box.setAttribute("aria-label", "What changes");
  return node("figure", "code bare diff", box);
}
