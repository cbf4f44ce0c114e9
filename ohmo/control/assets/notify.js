// A word of the browser when something waits for the person and nobody looks at the page; only after they asked for it.

export class Notifier {
  /** `button`: asks for it; shown as long as it makes sense. */
  constructor(button) {
    this.button = button;
    this.waiting = null; // as many as were told last
    button.addEventListener("click", async () => {
      await Notification.requestPermission();
      this.draw();
    });
    this.draw();
  }

  draw() {
    this.button.hidden = !("Notification" in window) || Notification.permission !== "default";
  }

  /** So many things wait now. */
  told(number) {
    const more = this.waiting !== null && number > this.waiting;
    this.waiting = number;
    if (!more || document.visibilityState === "visible" || !("Notification" in window) || Notification.permission !== "granted") return;
    const made = new Notification("ohmo waits for you", { body: number === 1 ? "One question is open" : `${number} questions are open`, tag: "ohmo", icon: "/favicon.svg" });
    made.addEventListener("click", () => {
      window.focus();
      made.close();
    });
  }
}
