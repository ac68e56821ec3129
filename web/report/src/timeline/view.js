// The part of the time that is shown, and the moment under the pointer: shared by all drawings of one plan.
export class TimeView {
  constructor(end) {
    this.whole = Math.max(1, end);
    this.begin = 0;
    this.end = this.whole;
    this.cursor = null;
    this.listeners = new Set();
    this.pending = false;
  }

  listen(listener) {
    this.listeners.add(listener);
  }

  // Draws once a frame, however often it changes.
  changed() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }

  show(begin, end) {
    const least = Math.min(this.whole, 20);
    const length = Math.min(this.whole, Math.max(least, end - begin));
    this.begin = Math.max(0, Math.min(this.whole - length, begin));
    this.end = this.begin + length;
    this.changed();
  }

  // Parts of what is shown: 0.5 moves by half of it.
  pan(part) {
    const by = part * (this.end - this.begin);
    this.show(this.begin + by, this.end + by);
  }

  // At a moment, which stays where it is. A factor below 1 shows less.
  zoom(factor, at = (this.begin + this.end) / 2) {
    this.show(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  // So that a task can be seen.
  reveal(begin, end) {
    const length = this.end - this.begin;
    if (begin >= this.begin && end <= this.end && end - begin > length / 200) return;
    const shown = Math.min(this.whole, Math.max((end - begin) * 12, 200));
    this.show((begin + end - shown) / 2, (begin + end + shown) / 2);
  }

  extend(whole) {
    this.whole = Math.max(1, whole);
    this.show(0, this.whole);
  }

  point(time) {
    if (time === this.cursor) return;
    this.cursor = time;
    this.changed();
  }
}
