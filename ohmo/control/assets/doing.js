// What the agent does right now. Tools run side by side: the end of one, or a call that was refused, is not the end of the others.

export class Doing {
  constructor() {
    this.running = new Map(); // call -> words
    this.said = "";
  }

  /** Takes an event of a turn; what does not concern it is left alone. */
  take(kind, data) {
    switch (kind) {
      case "tool_started":
        this.running.set(data.call, data.summary || data.name);
        break;
      case "tool_refused":
        this.said = `${data.name} was not run`;
        break;
      case "tool_progress":
        this.running.set(data.call, data.text.slice(0, 200));
        break;
      case "tool_done":
        if (this.running.delete(data.call)) this.said = "";
        break;
      case "status":
        this.said = data.text.slice(0, 200);
        break;
      case "failure":
        this.said = data.fatal ? "" : data.text.slice(0, 200); // the last one comes as a message, which stands
        break;
      case "snapshot":
        this.running.clear();
        this.said = data.status;
        break;
      case "turn_started":
      case "turn_ended":
        this.clear();
    }
  }

  clear() {
    this.running.clear();
    this.said = "";
  }

  /** One line; empty: it thinks. */
  get words() {
    const names = [...this.running.values()];
    if (!names.length) return this.said;
    return names.length === 1 ? names[0] : `${names.at(-1)} (and ${names.length - 1} more)`;
  }
}
