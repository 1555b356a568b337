// What a watcher has on its screen: the rules of `outlast.watch.Screen`, to the letter (a test compares the two).
//
// * a delta at offset n replaces everything of its kind from n on; what is missing before n shows as dots;
// * `call.retracted` voids what the call has shown;
// * `attempt.opened` voids what every open call has shown;
// * `call.settled` replaces what the call has shown by its result.

const DOTS = "…";

/** Text whose length is counted in code points, as offsets are. */
class Shown {
  constructor() {
    this.text = "";
    this.count = 0;
  }

  /** Keeps the first `offset` code points, dots for those that are missing, and puts `added` behind them. */
  put(offset, added) {
    if (offset < this.count) this.text = head(this.text, this.count, offset);
    else if (offset > this.count) this.text += DOTS.repeat(offset - this.count);
    this.text += added;
    this.count = offset + length(added);
  }
}

function length(text) {
  let count = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code < 0xdc00) count--; // the first half of a pair: JSON brings whole pairs only
  }
  return count;
}

function head(text, count, wanted) {
  return count === text.length ? text.slice(0, wanted) : [...text].slice(0, wanted).join("");
}

const openView = (call) => ({ call, name: "", lane: "", kind: "", shown: {}, status: "open", settled: null });

export class Screen {
  constructor() {
    this.calls = new Map();
    this.turns = new Map();
    this.cursor = "0.0";
    /** Calls that are not settled and show something: what an attempt voids. */
    this.showing = new Set();
  }

  apply(event) {
    this.cursor = event.cursor;
    const kind = event.kind;
    if (kind.startsWith("call.")) this.#call(event, kind);
    else if (kind.startsWith("turn.")) {
      const ends = kind === "turn.settled" || kind === "turn.parked";
      this.turns.set(event.turn ?? 0, ends ? (event.status ?? "") : "open");
    } else if (kind === "attempt.opened") {
      for (const view of this.showing) view.shown = {};
      this.showing.clear();
    }
  }

  #call(event, kind) {
    const number = event.call ?? 0;
    let view = this.calls.get(number);
    if (!view) this.calls.set(number, (view = openView(number)));
    switch (kind) {
      case "call.opened":
        view.name = event.name ?? "";
        view.lane = event.lane ?? "";
        view.kind = String(event.facts?.kind ?? "");
        break;
      case "call.settled":
        view.status = event.status ?? "";
        view.settled = event;
        this.#void(view);
        break;
      case "call.retracted":
        this.#void(view);
        break;
      case "call.text":
      case "call.thinking":
      case "call.output": {
        const what = kind.slice("call.".length);
        (view.shown[what] ??= new Shown()).put(event.offset ?? 0, event.text ?? "");
        this.showing.add(view);
        break;
      }
    }
  }

  #void(view) {
    view.shown = {};
    this.showing.delete(view);
  }

  /** As plain values, for comparing two of them. */
  values() {
    const views = [...this.calls.values()].map((view) => ({
      ...view,
      shown: Object.fromEntries(Object.entries(view.shown).map(([kind, shown]) => [kind, shown.text])),
    }));
    return { calls: views, turns: [...this.turns], cursor: this.cursor };
  }
}
