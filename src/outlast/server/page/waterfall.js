// The waterfall: a turn's attempts, lanes and calls over time. One sees where it stopped, where another worker went on, what
// came from the log, and what that saved against what the log takes up.

import { button, el, fill } from "./dom.js";
import { to } from "./router.js";
import { everyFrame } from "./store.js";
import { bytes, plain, plural, short } from "./words.js";
import { canvasOf } from "./waterfall/canvas.js";
import { layoutOf } from "./waterfall/layout.js";
import { tables } from "./waterfall/table.js";
import { addSaved, Unfolding } from "./waterfall/unfold.js";
import { barText, facts, logText, nameOf, savedText, turnSentence } from "./waterfall/words.js";

const TICK_MS = 250;
/** For so many times as long as drawing took, what was drawn stands. */
const REST = 12;
const HINT = "Point at a call, or go from call to call with the arrow keys. Plus and minus zoom, Ctrl and the wheel too; drag to move.";
const LEGEND = [["model", "model call"], ["tool", "tool call"], ["kept", "read from the log since"], ["lost", "lost or void try"], ["wait", "waits"], ["cut", "time cut short"]];

/**
 * Draws the waterfall of a session into `element`. `events.watch(told)` calls `told` with events as they come; `api.ask` asks the
 * server about the session. Returns what ends it.
 */
export function mount(element, { session, api, events }) {
  style();
  const view = new View(element, session, api);
  // Null: older events were put before the others, which the picture has anyway.
  const unwatch = events.watch((came) => came && view.take(came));
  view.load();
  return () => {
    unwatch();
    view.end();
  };
}

/** The sheet of styles: asked for with the first waterfall, and there from then on. */
function style() {
  const address = new URL("./waterfall.css", import.meta.url).href;
  if (!document.querySelector(`link[href="${address}"]`)) document.head.append(el("link", { rel: "stylesheet", href: address }));
}

class View {
  constructor(element, session, api) {
    this.session = session;
    this.api = api;
    this.ended = false;
    /** What came before the picture was there. */
    this.early = [];
    this.unfolding = null;
    /** An older turn that somebody looks at; null: the newest. */
    this.older = null;
    this.known = [];
    this.bars = new WeakMap();
    this.log = null;
    this.stored = 0;
    this.strip = el("div", { class: "wf-strip", role: "status" });
    this.turns = el("select", { "aria-label": "Turn", on: { change: () => this.#choose(Number(this.turns.value)) } });
    this.details = el("div", { class: "wf-details", "aria-live": "polite" });
    this.canvas = canvasOf({
      chosen: (bar) => this.#tell(bar),
      enter: (bar) => (location.hash = to("sessions", session, "calls", String(bar.call.call))),
    });
    this.tables = tables((call) => this.canvas.choose(call));
    const tools = el("div", { class: "wf-tools" }, el("label", { class: "wf-turn" }, "Turn ", this.turns),
      button("−", () => this.canvas.zoom(1 / 1.6), { "aria-label": "Zoom out" }), button("+", () => this.canvas.zoom(1.6), { "aria-label": "Zoom in" }),
      button("Whole turn", () => this.canvas.whole()), el("span", { class: "grow" }), legend());
    this.drawing = el("div", { class: "wf", hidden: true }, tools, this.canvas.node, this.details, this.tables.node);
    fill(element, el("div", { class: "wf" }, this.strip, this.drawing));
    this.#tell(null);
    this.frame = everyFrame(() => this.draw());
    this.timer = setInterval(() => this.#tick(), TICK_MS);
    this.since = performance.now();
    this.rests = 0;
    this.again = null;
  }

  async load() {
    try {
      const found = await this.api.ask("/timeline");
      if (this.ended) return;
      this.#begin(found);
    } catch (error) {
      fill(this.strip, el("p", { class: "why" }, error.message), button("Try again", () => this.load()));
    }
  }

  #begin(found) {
    this.unfolding = new Unfolding(found);
    this.#weigh(found);
    this.known = [...(found.turns ?? [])].reverse();
    const early = this.early.filter((event) => behind(event.cursor, found.cursor));
    this.early = null;
    this.#apply(early);
    this.#listTurns();
    this.frame.ask();
  }

  /** Events as they come, in order. */
  take(came) {
    if (this.early) this.early.push(...came);
    else this.#apply(came.filter((event) => behind(event.cursor, this.unfolding.cursor)));
  }

  #apply(events) {
    const before = this.unfolding.turn?.turn;
    for (const event of events) if (!/^call\.(text|thinking|output)$|^gap$/.test(event.kind)) this.unfolding.apply(event);
    if (!events.length) return;
    this.since = performance.now();
    if (this.unfolding.turn?.turn !== before) this.#listTurns();
    if (events.some(({ kind }) => kind === "turn.settled" || kind === "attempt.opened")) this.#askLog();
    this.frame.ask();
  }

  /** What the log takes up is not in events: asked again where a turn or an attempt ends. */
  async #askLog() {
    try {
      const found = await this.api.ask("/timeline", { query: { turn: this.turn?.turn, limit: 1 } });
      this.#weigh(found);
      this.frame.ask();
    } catch {
      // The figures that stand there are of a moment ago; the next attempt asks again.
    }
  }

  #weigh(found) {
    this.log = found.turn_log;
    this.stored = found.stored_bytes;
  }

  get turn() {
    return this.older ?? this.unfolding?.turn ?? null;
  }

  #listTurns() {
    const newest = this.unfolding.turn;
    const turns = new Map(this.known.map((one) => [one.turn, one]));
    for (const one of [...this.unfolding.over, newest]) if (one) turns.set(one.turn, one);
    const shown = this.turn?.turn;
    fill(this.turns, [...turns.values()].reverse().map((one) =>
      el("option", { value: String(one.turn), selected: one.turn === shown }, `${one.turn} ${one.status ?? "open"} · ${plural(one.calls ?? 0, "call")} · ${short(one.prompt ?? "", 50)}`)));
    this.turns.disabled = turns.size < 2;
  }

  async #choose(number) {
    const newest = this.unfolding.turn;
    try {
      const found = await this.api.ask("/timeline", { query: { turn: number, limit: 1 } });
      if (this.ended) return;
      this.older = number === newest?.turn ? null : new Unfolding({ ...found, attempt: null }).turn;
      this.#weigh(found);
      this.canvas.whole();
      this.rests = 0;
      this.frame.ask();
    } catch (error) {
      fill(this.strip, el("p", { class: "why" }, error.message));
    }
  }

  /** What is open grows with time alone. */
  #tick() {
    const turn = this.unfolding?.turn;
    if (!this.older && turn?.status === "open" && !turn.attempts.at(-1)?.ended && !document.hidden) this.frame.ask();
  }

  /** A large turn is drawn anew less often than a small one: most of the time stays for whoever moves what is drawn. */
  draw() {
    const began = performance.now();
    if (began < this.rests) return this.#later();
    this.#draw();
    const cost = performance.now() - began;
    this.rests = began + cost * REST;
  }

  #later() {
    this.again ??= setTimeout(() => {
      this.again = null;
      this.frame.ask();
    }, this.rests - performance.now());
  }

  #draw() {
    const turn = this.turn;
    if (this.ended || !this.unfolding) return;
    this.drawing.hidden = !turn;
    if (!turn) return void fill(this.strip, el("p", { class: "nothing" }, el("strong", {}, "This session has had no turn yet."), "A turn begins with a prompt; its attempts and calls are drawn here as they come."));
    // The log's clock and ours may differ: what is open grows by the time that passed here since the newest event.
    const running = turn.status === "open" && !turn.attempts.at(-1)?.ended;
    const now = this.unfolding.at_s + (running ? (performance.now() - this.since) / 1000 : 0);
    const layout = layoutOf(turn, now, this.bars);
    this.canvas.show(layout);
    this.tables.show(layout);
    this.#words(turn);
  }

  #words(turn) {
    const [lead, saved, end] = turnSentence(turn);
    const sum = addSaved(this.unfolding.saved);
    const all = sum.takeovers > turn.saved.takeovers ? savedText(sum) : "";
    const taken = this.log ? `The log of this turn takes up ${logText(this.log)}; the session, with all that it names, ${bytes(this.stored ?? 0)}.` : "";
    const key = [lead, saved, all, taken].join("\n");
    if (key === this.said) return;
    this.said = key;
    fill(this.strip, el("p", { class: "wf-saved" }, lead, saved ? el("strong", {}, saved) : null, end),
      el("p", { class: "dim" }, taken, all ? ` All turns together: ${all} saved.` : ""));
  }

  #tell(bar) {
    if (!bar) return void fill(this.details, el("p", { class: "dim" }, HINT));
    const { call } = bar;
    fill(this.details, el("h2", {}, `${nameOf(call)} `, call.about ? el("code", {}, plain(call.about)) : null),
      el("dl", {}, facts(bar, this.turn.attempts).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      el("a", { href: to("sessions", this.session, "calls", String(call.call)) }, `Call ${call.call} in the conversation`),
      el("span", { class: "unseen" }, barText(bar)));
  }

  end() {
    this.ended = true;
    clearInterval(this.timer);
    clearTimeout(this.again);
    this.frame.end();
    this.canvas.end();
  }
}

/** Whether a cursor lies behind another. */
function behind(cursor, other) {
  const [[seq, index], [than, at]] = [cursor, other].map((one) => one.split(".").map(Number));
  return seq > than || (seq === than && index > at);
}

function legend() {
  return el("ul", { class: "wf-legend", "aria-label": "What the drawing shows" }, LEGEND.map(([kind, text]) => el("li", {}, el("span", { class: `wf-key wf-key-${kind}`, "aria-hidden": "true" }), text)));
}
