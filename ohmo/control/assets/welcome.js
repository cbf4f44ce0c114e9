// The empty page says what to do.

import { markdown } from "./markdown.js";
import { offline } from "./status.js";
import { node } from "./transcript.js";

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
  const here = Object.assign(node("a", "choice good", "Set it up here"), { href: "#/setup" });
  help.append(node("p", "", here), node("p", "muted", why));
  return help;
}

/** What stands in a conversation without words; `begin(line)` puts one into the message box. */
export function welcome(status, begin) {
  const box = node("div", "ideas");
  for (const line of offline(status) ? BY_HAND : IDEAS) {
    const button = node("button", "", line);
    button.type = "button";
    button.addEventListener("click", () => begin(line));
    box.append(button);
  }
  return [node("h2", "", "What shall we do?"), ...(offline(status) ? [setup(status.provider)] : []), box];
}
