// Bars by day, stacked by what they are made of; plain SVG, with the same numbers as a table for who cannot see it.

import { node } from "./pieces.js";

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 220;
const LEFT = 52;
const BOTTOM = 24;
export const COLOURS = 6; // classes part-0 to part-5; the rest share the last one

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** Round numbers for the axis: 1, 2 or 5 times a power of ten. */
function steps(most) {
  if (most <= 0) return [0];
  const raw = most / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, number) => number * step);
}

/** `days`: [{day, parts: Map(name -> value)}] without gaps; `names`: the order of the parts; `said(value)` -> text. */
export function bars(days, names, said, label) {
  const width = 720;
  const totals = days.map(({ parts }) => [...parts.values()].reduce((sum, value) => sum + value, 0));
  const marks = steps(Math.max(0, ...totals));
  const top = marks.at(-1) || 1;
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - 10);
  const slot = (width - LEFT - 8) / days.length;
  const art = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  for (const mark of marks) {
    art.append(shape("line", { x1: LEFT, x2: width - 8, y1: y(mark), y2: y(mark), class: "grid" }));
    art.append(shape("text", { x: LEFT - 8, y: y(mark) + 4, class: "axis end" }, said(mark)));
  }
  const every = Math.ceil(days.length / 8);
  days.forEach(({ day, parts }, number) => {
    const x = LEFT + number * slot;
    const group = shape("g", { class: "bar" });
    group.append(shape("title", {}, `${day}: ${said(totals[number])}`));
    group.append(shape("rect", { x, y: 10, width: slot, height: HEIGHT - BOTTOM - 10, class: "reach" }));
    let below = 0;
    names.forEach((name, index) => {
      const value = parts.get(name) ?? 0;
      if (value <= 0) return;
      const high = y(below) - y(below + value);
      group.append(shape("rect", { x: x + slot * 0.14, y: y(below + value), width: Math.max(1, slot * 0.72), height: Math.max(0.5, high), rx: Math.min(3, slot * 0.1), class: `part-${Math.min(index, COLOURS - 1)}` }));
      below += value;
    });
    art.append(group);
    if (number % every === 0) art.append(shape("text", { x: x + slot / 2, y: HEIGHT - 6, class: "axis" }, day.slice(5)));
  });
  const legend = node("ul", "legend", ...names.map((name, index) => node("li", "", node("i", `swatch part-${Math.min(index, COLOURS - 1)}`), name)));
  return node("figure", "chart-box", art, legend);
}
