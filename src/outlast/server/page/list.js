// A list of which only what is seen is in the document, however long it is.
//
// Rows have a key and a height of their own. Heights are guessed until a row has been drawn once, then measured; what
// stands on the screen stays where it is when something above it turns out to be taller, or is put before it.

import { el } from "./dom.js";
import { everyFrame } from "./store.js";

/** How far beyond its edges the list is drawn. */
const BEYOND_PX = 700;
const GUESS_PX = 56;
/** From the end: nearer than this the list follows what comes. */
const NEAR_PX = 48;

export class LongList {
  /**
   * `draw(row)` makes a row: `{node, update(), end()}`, the last two if it has use for them. `atTop` is called when the
   * beginning is near, so that older rows can be asked for.
   */
  constructor({ draw, atTop = () => {}, label }) {
    this.draw = draw;
    this.atTop = atTop;
    this.rows = [];
    this.at = new Map();
    this.heights = new Map();
    this.tops = new Float64Array(1);
    this.drawn = new Map();
    this.follows = true;
    this.before = 0;
    this.canvas = el("div", { class: "canvas", role: "feed", "aria-label": label });
    this.node = el("div", { class: "long", tabindex: "0", role: "region", "aria-label": label }, this.canvas);
    this.frame = everyFrame(() => this.#paint());
    this.node.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.sizes = new ResizeObserver((entries) => this.#sized(entries));
    this.sizes.observe(this.node);
  }

  /** Shows these rows; those with the keys `changed` are drawn anew. */
  show(rows, changed = new Set()) {
    const held = this.#anchor();
    this.rows = rows;
    this.#layout();
    for (const key of changed) this.#change(key);
    this.#hold(held);
    this.frame.ask();
  }

  #change(key) {
    const shown = this.drawn.get(key);
    if (shown?.part.update) shown.part.update();
    else if (shown) this.#remove(key, shown); // it is drawn anew with the next frame
  }

  /** Brings the row of this key into view. */
  reveal(key) {
    const index = this.at.get(key);
    if (index === undefined) return false;
    this.follows = false;
    this.#to(this.tops[index] - 24);
    this.#paint();
    // Measured now, for the first time maybe: once more, with the true heights.
    this.#to(this.tops[index] - 24);
    this.#paint();
    return true;
  }

  toEnd() {
    this.follows = true;
    this.frame.ask();
  }

  end() {
    this.frame.end();
    this.sizes.disconnect();
    for (const { part } of this.drawn.values()) part.end?.();
    this.drawn.clear();
  }

  #layout() {
    const count = this.rows.length;
    if (this.tops.length < count + 1) this.tops = new Float64Array((count + 1) * 2);
    this.at.clear();
    let top = 0;
    for (let index = 0; index < count; index++) {
      const key = this.rows[index].key;
      this.at.set(key, index);
      this.tops[index] = top;
      top += this.heights.get(key) ?? GUESS_PX;
    }
    this.tops[count] = top;
    this.canvas.style.height = `${top}px`;
  }

  /** The first row that is seen, and where. */
  #anchor() {
    const index = this.#indexAt(this.node.scrollTop);
    const row = this.rows[index];
    return row ? { key: row.key, from: this.node.scrollTop - this.tops[index] } : null;
  }

  #hold(held) {
    if (this.follows) return;
    const index = held && this.at.get(held.key);
    if (index === undefined || index === null) return;
    const wanted = this.tops[index] + held.from;
    if (Math.abs(wanted - this.node.scrollTop) > 0.5) this.#to(wanted);
  }

  #to(top) {
    this.node.scrollTop = Math.max(0, top);
    this.before = this.node.scrollTop;
  }

  #toEnd() {
    this.#to(this.tops[this.rows.length] - this.node.clientHeight);
  }

  #indexAt(y) {
    let low = 0;
    let high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(0, this.rows.length - 1));
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.node;
    // Only who goes up stops following: a list that becomes lower, or longer, is no word of anybody's.
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.follows = true;
    else if (scrollTop < this.before - 1) this.follows = false;
    this.before = scrollTop;
    this.frame.ask();
  }

  #paint() {
    if (!this.node.isConnected) return;
    const height = this.node.clientHeight;
    if (this.follows) this.#toEnd();
    const top = this.node.scrollTop;
    const first = this.#indexAt(top - BEYOND_PX);
    const last = this.#indexAt(top + height + BEYOND_PX);
    this.#drawOnly(first, last);
    this.#measure();
    if (top < BEYOND_PX && this.rows.length) this.atTop();
  }

  #drawOnly(first, last) {
    const wanted = new Set();
    for (let index = first; index <= last && index < this.rows.length; index++) {
      const row = this.rows[index];
      wanted.add(row.key);
      if (!this.drawn.has(row.key)) this.#add(row, index);
    }
    for (const [key, shown] of this.drawn) {
      // Where somebody stands with the keyboard, a row stays: else the focus would be lost.
      if (!wanted.has(key) && !(this.at.has(key) && shown.node.contains(document.activeElement))) this.#remove(key, shown);
    }
  }

  #add(row, index) {
    const part = this.draw(row);
    const node = el("article", { class: "row", tabindex: "-1", "aria-posinset": index + 1, "aria-setsize": -1 }, part.node);
    node.dataset.key = row.key;
    const next = this.#after(index);
    this.canvas.insertBefore(node, next);
    this.drawn.set(row.key, { node, part });
    this.sizes.observe(node);
  }

  /** The node of the first row behind `index` that is drawn: the document keeps the order of the list. */
  #after(index) {
    let best = null;
    let bestIndex = Infinity;
    for (const [key, shown] of this.drawn) {
      const other = this.at.get(key) ?? Infinity;
      if (other > index && other < bestIndex) [best, bestIndex] = [shown.node, other];
    }
    return best;
  }

  #remove(key, shown) {
    this.sizes.unobserve(shown.node);
    shown.part.end?.();
    shown.node.remove();
    this.drawn.delete(key);
  }

  /** Takes in the true heights of what is drawn, and puts everything where it belongs. */
  #measure() {
    const held = this.#anchor();
    let changed = false;
    for (const [key, { node }] of this.drawn) {
      const height = node.offsetHeight;
      if (height && this.heights.get(key) !== height) {
        this.heights.set(key, height);
        changed = true;
      }
    }
    if (changed) this.#layout();
    for (const [key, { node }] of this.drawn) {
      const index = this.at.get(key);
      if (index !== undefined) node.style.transform = `translateY(${this.tops[index]}px)`;
    }
    if (!changed) return;
    this.#hold(held);
    if (this.follows) this.#toEnd();
    this.frame.ask();
  }

  #sized(entries) {
    for (const { target } of entries) {
      if (target === this.node && this.width !== target.clientWidth) {
        this.width = target.clientWidth;
        this.heights.clear(); // every row wraps anew
      }
    }
    this.frame.ask();
  }
}
