// The model: who provides it, the key, a test against the endpoint, and the models it has.

import { button, node } from "./pieces.js";
import { field, Part, secret } from "./setup-parts.js";

const PROVIDERS = [["auto", "Look for one: a key of the environment, a server on this machine"], ["anthropic", "Anthropic, or what speaks its API"], ["openai", "OpenAI, or what speaks its API"], ["offline", "None: tools by hand"]];

export class ModelPart extends Part {
  fill({ model }) {
    this.provider = field("setup-provider", "Provider", "", { options: PROVIDERS, value: model.provider });
    this.address = field("setup-address", "Address of the endpoint", "Empty: the maker's own. A server of your own or another house, for example http://127.0.0.1:11434/v1 (Ollama).", { value: model.base_url, type: "url", inputMode: "url" });
    this.key = secret("setup-key", "API key", "", model.there, model.reference);
    this.model = field("setup-model", "Model", "Empty: the provider's usual one. A test lists those the endpoint has.", { value: model.models.at(-1) ?? "" });
    this.choice = node("div", "");
    const test = button("Test", "choice", () => this.test("model/test", this.wish()), "pulse");
    const use = Object.assign(node("button", "choice good", "Use this model"), { type: "submit" });
    const profile = model.profile === "default" ? "" : node("p", "muted", `Of the profile ${model.profile}.`);
    return [node("h2", "", "Model"), profile, node("div", "two", this.provider, this.address, this.key, this.model), this.choice, node("div", "choices", test, use)];
  }

  wish() {
    return { provider: this.provider.input.value, base_url: this.address.input.value.trim(), key: this.key.input.value.trim(), model: this.model.input.value.trim() };
  }

  fine({ who }) {
    return who === "the offline provider" ? "No model answers yet: tools can be tried by hand" : `${who} answered`;
  }

  /** The endpoint's models, to choose from; what is chosen is the model of the next test. */
  tried({ models }) {
    const input = this.model.input;
    if (!models.length) return this.choice.replaceChildren();
    const options = [["", `Choose one of ${models.length}`], ...models.map((name) => [name, name])];
    const made = field("setup-models", "Models of this endpoint", "", { options, value: models.includes(input.value) ? input.value : "" });
    made.input.addEventListener("change", () => {
      if (!made.input.value) return;
      input.value = made.input.value;
      this.dirty = true;
    });
    this.choice.replaceChildren(made);
  }

  save() {
    return this.send("model", this.wish());
  }
}
