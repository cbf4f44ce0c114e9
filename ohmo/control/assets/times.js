// Times as people read them, by the clock of the house: the browser's own may go wrong.

const SMALL = 5000; // ms: the line's, not the clocks'
let ahead = 0; // ms the house's clock is before the browser's

/** `said`: the Date of an answer (RFC 9110, 6.6.1: whole seconds). */
export function hearClock(said) {
  const apart = Date.parse(said ?? "") + 500 - Date.now();
  if (!Number.isNaN(apart)) ahead = Math.abs(apart) < SMALL ? 0 : apart;
}

export function houseNow() {
  return Date.now() + ahead;
}

/** How far this browser's clock is from the house's, in words; empty when that hardly matters. */
export function clocksApart() {
  if (Math.abs(ahead) < 60_000) return "";
  const minutes = Math.round(Math.abs(ahead) / 60_000);
  const words = minutes < 120 ? `${minutes} min` : minutes < 2880 ? `${Math.round(minutes / 60)} hours` : `${Math.round(minutes / 1440)} days`;
  return `The clock of this browser is ${words} ${ahead > 0 ? "behind" : "before"} the clock of the machine ohmo runs on. "Ago" and "in" count by that one.`;
}

const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const whole = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const STEPS = [
  ["day", 86400, 129_600],
  ["hour", 3600, 5400],
  ["minute", 60, 60],
];

/** "3 min. ago", "in 2 hr." */
export function relative(at, now = houseNow()) {
  const seconds = (new Date(at) - now) / 1000;
  for (const [unit, size, from] of STEPS) if (Math.abs(seconds) >= from) return ago.format(Math.round(seconds / size), unit);
  return seconds > 5 ? "in a moment" : "just now";
}

/** "Sun, 22 Nov 2026, 06:44:05 EST": in the browser's own zone, which is named. */
export function exact(at) {
  return whole.format(new Date(at));
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });

/** As `exact`; of today only the time. */
export function brief(at) {
  const time = new Date(at);
  return time.toDateString() === new Date(houseNow()).toDateString() ? clock.format(time) : whole.format(time);
}

/** "America/New_York" */
export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
