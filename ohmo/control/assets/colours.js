// Colours for code: a small tokenizer of our own, one pass, linear in the length. Text stays text; only spans are made around it.

const LONGEST = 60_000; // characters; what is longer stays in one colour

const words = (text) => new Set(text.split(" "));
const C = words("auto break case catch class const constexpr continue default delete do double else enum export extends extern false final finally float for friend goto if implements import in inline instanceof int interface let long namespace new null nullptr operator override package private protected public return short signed sizeof static struct super switch template this throw throws true try typedef typename undefined union unsigned using var virtual void volatile while yield async await of typeof from as bool boolean char byte string type readonly abstract is get set record internal sealed foreach var out ref nameof");
const KEYWORDS = {
  c: C,
  python: words("and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield"),
  shell: words("if then else elif fi for in do done while until case esac function return export local set unset source alias readonly declare exit shift trap"),
  go: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int int64 error bool byte rune float64"),
  rust: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while"),
  ruby: words("alias and begin break case class def defined? do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require attr_accessor"),
  sql: words("select from where and or not null insert into values update set delete create table index drop alter add primary key foreign references join left right inner outer on as group by order having limit offset union all distinct case when then else end in is like between exists with returning begin commit rollback default unique check"),
  data: words("true false null yes no on off"),
};
const FAMILY = {
  c: "js javascript mjs ts typescript jsx tsx java c h cpp c++ cc hpp cs csharp kotlin kt swift scala php dart",
  python: "python py python3",
  shell: "bash sh shell zsh console fish dockerfile makefile make",
  go: "go golang",
  rust: "rust rs",
  ruby: "ruby rb",
  sql: "sql sqlite postgresql postgres mysql",
  data: "yaml yml toml ini json jsonc json5 conf",
  markup: "html xml svg vue",
  css: "css scss",
  diff: "diff patch",
};
const OF = new Map(Object.entries(FAMILY).flatMap(([family, names]) => names.split(" ").map((name) => [name, family])));

const SLASHES = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH = String.raw`(?<![^\s;(])#[^\n]*`;
const STRINGS = String.raw`"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?`;
const TICKS = "|`(?:[^`\\\\]|\\\\[\\s\\S])*`?";
const NUMBER = String.raw`\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;
const WORD = String.raw`[A-Za-z_$][\w$]*`;

/** One expression of a family: comment, string, number, word; what is none of them stays plain. */
function pattern(comment, string, word = WORD) {
  return new RegExp(`(?<comment>${comment})|(?<string>${string})|(?<number>${NUMBER})|(?<word>${word})`, "g");
}

const PATTERNS = {
  c: pattern(SLASHES, STRINGS + TICKS),
  go: pattern(SLASHES, STRINGS + TICKS),
  rust: pattern(SLASHES, String.raw`"(?:[^"\\]|\\[\s\S])*"?|'(?:[^'\\\n]|\\.)'`),
  python: pattern(String.raw`#[^\n]*`, String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${STRINGS}`),
  shell: pattern(HASH, String.raw`"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?`, String.raw`\$\{?\w+\}?|--?[A-Za-z][\w-]*|${WORD}`),
  ruby: pattern(HASH, STRINGS, String.raw`[:@]*[A-Za-z_]\w*[?!]?`),
  sql: pattern(String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`, String.raw`'(?:[^']|'')*'?|"[^"\n]*"?`),
  data: pattern(`${HASH}|${SLASHES}`, STRINGS, String.raw`[A-Za-z_][\w.-]*`),
  css: pattern(String.raw`\/\*[\s\S]*?(?:\*\/|$)`, STRINGS, String.raw`[.#@]?-{0,2}[A-Za-z][\w-]*`),
  markup: pattern(String.raw`<!--[\s\S]*?(?:-->|$)`, STRINGS, String.raw`<\/?[A-Za-z][\w:-]*|[A-Za-z_:][\w:.-]*(?==)`),
};

function kindOf(family, word, code, end) {
  if (family === "sql" ? KEYWORDS.sql.has(word.toLowerCase()) : KEYWORDS[family]?.has(word)) return "keyword";
  if (family === "markup") return word[0] === "<" ? "keyword" : "name";
  if (family === "shell") return word[0] === "$" ? "name" : word[0] === "-" ? "number" : "";
  if (family === "data" || family === "css") return /^\s*[:=]/.test(code.slice(end, end + 20)) ? "name" : "";
  return code[end] === "(" ? "name" : "";
}

/** Pieces of `code`, [kind, text]; kind "" is plain. Joined they are `code` again. */
export function pieces(code, language) {
  const family = OF.get(language.toLowerCase());
  if (family === undefined || code.length > LONGEST) return [["", code]];
  if (family === "diff") return code.split(/(?<=\n)/).map((line) => [{ "+": "added", "-": "removed", "@": "name" }[line[0]] ?? "", line]);
  const found = [];
  let at = 0;
  for (const match of code.matchAll(PATTERNS[family])) {
    const [kind] = Object.entries(match.groups).find(([, text]) => text !== undefined);
    const end = match.index + match[0].length;
    const key = family === "data" && kind === "string" && /^\s*:/.test(code.slice(end, end + 20));
    const shown = kind === "word" ? kindOf(family, match[0], code, end) : key ? "name" : kind;
    if (!shown) continue;
    if (match.index > at) found.push(["", code.slice(at, match.index)]);
    found.push([shown, match[0]]);
    at = end;
  }
  found.push(["", code.slice(at)]);
  return found;
}

/** Nodes for a code element. */
export function coloured(code, language) {
  return pieces(code, language).map(([kind, text]) => {
    if (!kind) return text;
    const made = document.createElement("span");
    made.className = `code-${kind}`;
    made.textContent = text;
    return made;
  });
}
