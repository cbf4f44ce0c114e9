// Scrolling: the newest is followed only by who is there already.

export class Following {
  /** `way`: the button that leads back to the end. */
  constructor(box, way) {
    this.box = box;
    box.addEventListener("scroll", () => (way.hidden = this.there()), { passive: true });
    way.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => !way.hidden || this.toEnd()).observe(box);
  }

  there() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 80;
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }
}
