// The canvas of a waterfall: what of it is in view, and what mouse, finger and keyboard do with it.

import { el } from "../dom.js";
import { everyFrame } from "../store.js";
import { draw, HEAD, ROW, topsOf } from "./draw.js";
import { barAt } from "./layout.js";
import { attemptText, barText } from "./words.js";

const NAMES = {
  ink: "--ink", dim: "--dim", line: "--line", strong: "--strong-line", sheet: "--sheet", sunk: "--sunk", accent: "--accent", band: "--wf-band", bandOther: "--wf-band-other",
  model: "--wf-model", tool: "--wf-tool", wait: "--wf-wait", waitSoft: "--wf-wait-soft", lost: "--wf-lost", lostSoft: "--wf-lost-soft", on: "--wf-on",
};
const TALL = 0.6;
const HINT = "Arrow keys go from call to call, plus and minus zoom, 0 shows the whole turn, Enter opens the call in the conversation.";

/** `chosen(bar)` is told which call somebody looks at, `enter(bar)` which one they want to open. */
export function canvasOf({ chosen, enter }) {
  return new Canvas(chosen, enter);
}

class Canvas {
  constructor(chosen, enter) {
    this.told = chosen;
    this.enter = enter;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.spacer = el("div", { class: "wf-spacer" }, this.canvas);
    this.node = el("div", {
      class: "wf-canvas", tabindex: "0", role: "application", "aria-roledescription": "waterfall", "aria-label": "Waterfall of the turn", "aria-description": HINT,
    }, this.spacer);
    this.context = this.canvas.getContext("2d");
    this.layout = null;
    /** Units in view; null: all of them. */
    this.window = null;
    this.at = null;
    this.over = null;
    this.patterns = new Map();
    this.colours = null;
    this.frame = everyFrame(() => this.#draw());
    this.sizes = new ResizeObserver(() => this.#resized());
    this.sizes.observe(this.node);
    this.schemes = new MutationObserver(() => this.#recoloured());
    this.schemes.observe(document.documentElement, { attributes: true });
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.#recoloured();
    this.dark.addEventListener("change", this.repaint);
    this.#listen();
  }

  show(layout) {
    const held = this.window && this.layout && [this.layout.axis.at(this.window[0]), this.layout.axis.at(this.window[1])];
    this.layout = layout;
    this.stack = topsOf(layout);
    if (held) this.window = this.#within(held.map((at) => layout.axis.unit(at)));
    if (this.at) this.at = layout.bars.get(this.at.call.call) ?? null;
    if (this.over) this.over = layout.bars.get(this.over.call.call) ?? null;
    this.#resized();
  }

  /** The whole turn is in view, and stays so as it grows. */
  whole() {
    this.window = null;
    this.frame.ask();
  }

  /** Brings a call into view and makes it the one that is looked at. */
  choose(number) {
    const bar = this.layout?.bars.get(number);
    if (!bar) return;
    this.#choose(bar);
    this.node.focus({ preventScroll: true });
    this.node.scrollIntoView({ block: "nearest" });
  }

  zoom(by, around = null) {
    if (!this.layout) return;
    const [from, until] = this.#units();
    const middle = around ?? (this.at ? this.layout.axis.unit(this.at.began) : (from + until) / 2);
    const held = Math.min(until, Math.max(from, middle));
    const most = this.layout.axis.units;
    const wide = Math.min(most, Math.max(most / 1e5, (until - from) / by));
    const start = held - ((held - from) / (until - from)) * wide;
    this.window = wide >= most * 0.9999 ? null : this.#within([start, start + wide]);
    this.frame.ask();
  }

  pan(units) {
    if (!this.window) return;
    this.window = this.#within(this.window.map((one) => one + units));
    this.frame.ask();
  }

  #units() {
    return this.window ?? [0, this.layout.axis.units];
  }

  #within([from, until]) {
    const most = this.layout.axis.units;
    const wide = Math.min(most, Math.max(until - from, most / 1e5));
    const start = Math.min(Math.max(0, from), most - wide);
    return [start, start + wide];
  }

  #view() {
    const [from, until] = this.#units();
    const width = this.node.clientWidth;
    const left = width < 560 ? 64 : 112;
    // A little room at the right for what is still open.
    return { from, until, left, width: Math.max(50, width - left - 10), height: this.height, ratio: devicePixelRatio || 1 };
  }

  #resized() {
    if (!this.layout) return;
    const whole = HEAD + this.stack.height + 6;
    this.height = Math.max(HEAD + ROW * 2, Math.min(whole, Math.round(innerHeight * TALL)));
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(this.node.clientWidth * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      // Sizes by script are no inline style: the policy allows what is set on an element so.
      this.canvas.style.width = `${this.node.clientWidth}px`;
      this.canvas.style.height = this.node.style.height = `${this.height}px`;
    }
    this.spacer.style.height = `${whole}px`;
    this.frame.ask();
  }

  #recoloured() {
    this.colours = null;
    this.patterns.clear();
    this.frame.ask();
  }

  #coloured() {
    if (this.colours) return this.colours;
    const probe = el("span", { class: "unseen" });
    this.node.append(probe);
    this.colours = {};
    for (const [name, property] of Object.entries(NAMES)) {
      probe.style.color = `var(${property})`;
      this.colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return this.colours;
  }

  /** Slanted lines in a colour. */
  #hatch(colour) {
    if (!this.patterns.has(colour)) {
      const tile = new OffscreenCanvas(6, 6);
      const ctx = tile.getContext("2d");
      ctx.globalAlpha = 0.14;
      ctx.fillStyle = colour;
      ctx.fillRect(0, 0, 6, 6);
      ctx.globalAlpha = 1;
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.4;
      ctx.beginPath();
      for (const at of [-6, 0, 6]) (ctx.moveTo(at, 6), ctx.lineTo(at + 6, 0));
      ctx.stroke();
      this.patterns.set(colour, this.context.createPattern(tile, "repeat"));
    }
    return this.patterns.get(colour);
  }

  #draw() {
    if (!this.layout || !this.node.isConnected) return;
    draw(this.context, {
      layout: this.layout, view: this.#view(), tops: this.stack.tops, scroll: this.node.scrollTop, colours: this.#coloured(),
      hatch: (colour) => this.#hatch(colour), chosen: this.at, hovered: this.over,
    });
  }

  // ------------------------------------------------------------ mouse and finger

  #listen() {
    const node = this.node;
    node.addEventListener("scroll", () => this.frame.ask(), { passive: true });
    node.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    node.addEventListener("keydown", (event) => this.#key(event));
    node.addEventListener("pointerdown", (event) => this.#down(event));
    node.addEventListener("pointermove", (event) => this.#move(event));
    node.addEventListener("pointerup", (event) => this.#up(event));
    node.addEventListener("pointercancel", () => (this.drag = null));
    node.addEventListener("pointerleave", () => this.#hover(null));
    node.addEventListener("dblclick", () => this.at && this.enter(this.at));
  }

  #place(event) {
    const box = this.node.getBoundingClientRect();
    const view = this.#view();
    const x = event.clientX - box.left;
    const unit = view.from + ((x - view.left) / view.width) * (view.until - view.from);
    return { view, x, y: event.clientY - box.top, unit };
  }

  #barAt(event) {
    if (!this.layout) return null;
    const { view, x, y, unit } = this.#place(event);
    if (x < view.left || y < HEAD) return null;
    const inside = y - HEAD + this.node.scrollTop;
    const row = this.stack.tops.findLastIndex((top) => top <= inside);
    if (row < 0) return null;
    const pixel = (view.until - view.from) / view.width;
    const [at, next] = [this.layout.axis.at(unit), this.layout.axis.at(unit + 6 * pixel)];
    return barAt(this.layout.rows[row], at, Math.max(0.001, next - at));
  }

  /** The attempt over whose head the mouse is, in a sentence: there may be no room for its name. */
  #attemptAt(event) {
    if (!this.layout) return "";
    const { view, x, y, unit } = this.#place(event);
    if (x < view.left || y > HEAD) return "";
    const at = this.layout.axis.at(unit);
    const number = this.layout.attempts.findLastIndex((one) => one.began_s <= at);
    return number < 0 ? "" : attemptText(this.layout.attempts[number], number + 1);
  }

  #wheel(event) {
    if (!this.layout) return;
    const { view, unit } = this.#place(event);
    const across = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 300), unit);
    else if (across && this.window) this.pan(((event.deltaX || event.deltaY) / view.width) * (view.until - view.from));
    else return;
    event.preventDefault();
  }

  #down(event) {
    if (event.button) return;
    this.drag = { x: event.clientX, moved: false };
    this.node.setPointerCapture(event.pointerId);
  }

  #move(event) {
    if (!this.drag) {
      this.#hover(this.#barAt(event));
      if (!this.over) this.canvas.title = this.#attemptAt(event);
      return;
    }
    const by = event.clientX - this.drag.x;
    if (!this.drag.moved && Math.abs(by) < 4) return;
    const { view } = this.#place(event);
    Object.assign(this.drag, { x: event.clientX, moved: true });
    this.pan((-by / view.width) * (view.until - view.from));
  }

  #up(event) {
    const { drag } = this;
    this.drag = null;
    if (drag && !drag.moved) this.#choose(this.#barAt(event));
  }

  #hover(bar) {
    if (bar === this.over) return;
    this.over = bar;
    this.canvas.title = bar ? barText(bar) : "";
    if (!this.at) this.told(bar);
    this.frame.ask();
  }

  #choose(bar) {
    this.at = bar;
    this.told(bar);
    if (bar) this.#reveal(bar);
    this.node.setAttribute("aria-label", bar ? barText(bar) : "Waterfall of the turn");
    this.frame.ask();
  }

  /** Moves what is in view as little as shows the bar. */
  #reveal(bar) {
    const { axis } = this.layout;
    const [from, until] = this.#units();
    const [began, ended] = [axis.unit(bar.began), axis.unit(bar.ended)];
    if (this.window && (ended < from || began > until)) this.window = this.#within([began - (until - from) / 3, began + ((until - from) * 2) / 3]);
    const top = this.stack.tops[bar.row];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (top + ROW > this.node.scrollTop + this.height - HEAD) this.node.scrollTop = top + ROW - this.height + HEAD;
  }

  // ------------------------------------------------------------ keyboard

  #key(event) {
    if (!this.layout || event.altKey || event.metaKey || event.ctrlKey) return;
    const act = this.#keys(event)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  #keys({ shiftKey }) {
    const [from, until] = this.#units();
    const step = (until - from) / 5;
    return {
      ArrowRight: () => (shiftKey ? this.pan(step) : this.#along(1)),
      ArrowLeft: () => (shiftKey ? this.pan(-step) : this.#along(-1)),
      ArrowDown: () => this.#across(1),
      ArrowUp: () => this.#across(-1),
      Home: () => this.#edge(0),
      End: () => this.#edge(-1),
      "+": () => this.zoom(1.6),
      "=": () => this.zoom(1.6),
      "-": () => this.zoom(1 / 1.6),
      0: () => this.whole(),
      Enter: () => this.at && this.enter(this.at),
      Escape: () => this.#choose(null),
    };
  }

  /** To the next call of the row. */
  #along(by) {
    if (!this.at) return this.#edge(by > 0 ? 0 : -1);
    const row = this.layout.rows[this.at.row];
    const next = row[row.indexOf(this.at) + by];
    if (next) this.#choose(next);
  }

  /** To the call of the next row that has any, nearest in time. */
  #across(by) {
    if (!this.at) return this.#edge(0);
    for (let row = this.at.row + by; this.layout.rows[row]; row += by) {
      const near = barAt(this.layout.rows[row], this.at.began, Infinity);
      if (near) return this.#choose(near);
    }
  }

  #edge(at) {
    const row = this.layout.rows[this.at?.row ?? 0];
    const bar = row?.at(at);
    if (bar) this.#choose(bar);
  }

  end() {
    this.frame.end();
    this.sizes.disconnect();
    this.schemes.disconnect();
    this.dark.removeEventListener("change", this.repaint);
  }
}
