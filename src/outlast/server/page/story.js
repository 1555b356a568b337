// What a session's events tell, as rows: what the conversation draws. The live text of calls is the screen's.

import { Screen } from "./screen.js";

export const MAIN = "main";

/** Notes: what is told in a line of its own. */
const NOTES = new Set([
  "steer.taken", "prompt.queued", "signal.kept", "input.refused", "document.edited", "document.rejected",
  "files.lost", "network.asked", "turn.parked", "turn.released", "turn.continued", "session.forked",
  "schedule.set", "schedule.came", "schedule.removed", "call.decided", "gap",
]);

const PENDING = new Set(["turn.parked", "turn.released", "call.decided"]);

/** A turn as it is told so far; not `whole` where it began before what is here. */
const turnOf = (number, atS = 0) => ({ number, status: "open", atS, open: new Set(), attempts: 1, calls: 0, cost: 0, whole: true });

export class Story {
  constructor() {
    this.events = [];
    this.screen = new Screen();
    this.rows = [];
    this.calls = new Map();
    this.changed = new Set();
    this.turn = null;
    /** The turn that had begun before what is here; null: what is here begins between two. */
    this.first = undefined;
    /** Attempts from before one knows that, and in front of which row each would stand. */
    this.early = [];
    this.begun = new Set();
    /** What it told of who waits for a person. */
    this.pends = [];
  }

  /** Takes in what comes. Keys of rows that are not as they were are in `changed` until `taken`. */
  add(events) {
    for (const event of events) {
      this.events.push(event);
      this.#apply(event);
    }
  }

  /**
   * Puts older events before those that are here, as if all had come in order. Only the older ones are folded: what reaches over
   * the seam, the turn that was open and its calls, is joined to what is here. Deltas of settled calls go, their text being void.
   */
  addOlder(events) {
    const old = new Story();
    old.add(events);
    const voided = (event) => isDelta(event) && this.calls.get(event.call)?.view.settled;
    this.events = old.events.concat(this.events.filter((event) => !voided(event)));
    for (const name of this.begun) unqueue(old.rows, name);
    const moved = this.#joinCalls(old);
    this.#joinTurn(old);
    for (const early of this.early) early[0] += old.rows.length;
    this.early.unshift(...old.early);
    this.rows = old.rows.concat(moved.size ? this.rows.filter((row) => !moved.has(row)) : this.rows);
    for (const name of old.begun) this.begun.add(name);
  }

  /** Calls that were opened before the seam stand where they were opened, as the same rows. Returns those. */
  #joinCalls(old) {
    const moved = new Map();
    for (const [number, before] of old.calls) {
      const row = this.calls.get(number);
      if (!row) {
        this.calls.set(number, before);
        this.screen.calls.set(number, before.view);
        continue;
      }
      const { name, lane, kind } = before.view;
      if (!row.opened) Object.assign(row.view, { name, lane, kind });
      for (const fact of ["opened", "verdict", "retracted"]) row[fact] ??= before[fact];
      row.startedS ||= before.startedS;
      row.pending ??= before.pending;
      moved.set(before, row);
      this.changed.add(row.key);
    }
    if (moved.size) old.rows = old.rows.map((row) => moved.get(row) ?? row);
    for (const [turn, state] of old.screen.turns) if (!this.screen.turns.has(turn)) this.screen.turns.set(turn, state);
    return new Set(moved.values());
  }

  #joinTurn(old) {
    const turn = this.first;
    if (turn) old.#inside(turn.number);
    else if (turn === undefined) this.#within(old.turn, old.first);
    const before = old.turn;
    const joins = Boolean(turn) && before?.number === turn.number;
    if (joins) this.#join(before, turn, old.rows);
    if (old.first === undefined) return;
    const longer = joins && old.first === before;
    this.pends = longer ? [...old.pends, ...this.pends] : old.pends;
    this.first = longer ? turn : old.first;
  }

  /** `turn`, whose beginning stands in `before`, is told from there on. */
  #join(before, turn, rows) {
    const late = before.attempts - 1;
    const open = [...before.open].filter((call) => !this.calls.get(call)?.view.settled);
    for (const call of open) for (const event of this.pends) this.#pends(event, this.calls.get(call));
    Object.assign(turn, {
      atS: before.atS, whole: before.whole, attempts: turn.attempts + late, calls: turn.calls + before.calls,
      cost: turn.cost + before.cost, open: new Set([...open, ...turn.open]),
    });
    for (const row of this.rows) {
      if (row.turn !== turn) continue;
      if (row.is === "attempt") row.nth += late;
      this.changed.add(row.key);
    }
    for (const row of rows) if (row.turn === before) row.turn = turn;
  }

  taken() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** Calls of the turn that are open, newest last. */
  get openCalls() {
    return this.turn ? [...this.turn.open].map((call) => this.calls.get(call)).filter(Boolean) : [];
  }

  #row(row) {
    this.rows.push(row);
    this.changed.add(row.key);
    return row;
  }

  #apply(event) {
    this.screen.apply(event);
    const kind = event.kind;
    if (event.turn) this.#inside(event.turn, kind === "turn.opened");
    if (kind.startsWith("call.") && kind !== "call.decided") this.#call(event);
    else if (kind === "turn.opened") this.#begins(event);
    else if (kind === "turn.settled") this.#ends(event);
    else if (kind === "attempt.opened") this.#attempt(event);
    else if (kind === "attempt.ended") this.#attemptEnds(event);
    else if (NOTES.has(kind)) this.#note(event);
  }

  /** Here a turn is open, or `begins`. */
  #inside(number, begins = false) {
    const open = begins ? null : (this.turn ??= { ...turnOf(number), whole: false });
    if (this.first === undefined) this.#within(open, open);
  }

  /** What is here begins within `turn`, or between two: now one knows whose the attempts are that came before anything else. */
  #within(turn, first) {
    this.turn = turn;
    this.first = first;
    if (first === undefined) return;
    this.early.forEach(([at, event], added) => turn && this.rows.splice(at + added, 0, this.#gone(event, turn)));
    this.early = [];
  }

  #begins(event) {
    this.turn = turnOf(event.turn, event.at_s);
    // A prompt that waited is told once, as the turn that it became.
    unqueue(this.rows, event.name);
    this.begun.add(event.name);
    this.#row({ key: `t${event.turn}`, is: "turn", event, turn: this.turn });
  }

  #ends(event) {
    if (this.turn) this.turn.status = event.status;
    this.#row({ key: `e${event.cursor}`, is: "end", event, turn: this.turn });
    this.turn = null;
  }

  #attempt(event) {
    if (this.first === undefined) this.early.push([this.rows.length, event]);
    if (!this.turn) return;
    this.rows.push(this.#gone(event, this.turn));
    for (const call of this.turn.open) this.changed.add(`c${call}`);
  }

  /** The row of an attempt that goes on with a turn. */
  #gone(event, turn) {
    const key = `a${event.cursor}`;
    this.changed.add(key);
    return { key, is: "attempt", event, turn, nth: ++turn.attempts };
  }

  #attemptEnds(event) {
    this.#row({ key: `x${event.cursor}`, is: "note", event });
  }

  #call(event) {
    const number = event.call ?? 0;
    let row = this.calls.get(number);
    if (!row) {
      row = { key: `c${number}`, is: "call", call: number, turn: event.turn, view: this.screen.calls.get(number),
        opened: null, verdict: null, retracted: null, startedS: 0 };
      this.calls.set(number, row);
      // The log's own looks at a clock or at chance happened nowhere.
      if (event.facts?.kind !== "value") this.#row(row);
    }
    if (event.kind === "call.opened") {
      row.opened = event;
      row.startedS = event.at_s ?? 0;
      this.turn?.open.add(number);
      if (this.turn) this.turn.calls += 1;
    } else if (event.kind === "call.started") row.startedS = event.at_s ?? row.startedS;
    else if (event.kind === "call.verdict") row.verdict = event;
    else if (event.kind === "call.retracted") row.retracted = event;
    else if (event.kind === "call.settled") this.turn?.open.delete(number);
    if (this.turn && event.usage) this.turn.cost += event.usage.cost_usd ?? 0;
    this.changed.add(row.key);
  }

  /** Calls that a park names wait for a person, until somebody has decided or the turn goes on. */
  #pend(event) {
    if (this.turn && this.turn === this.first) this.pends.push(event);
    for (const row of this.openCalls) this.#pends(event, row);
  }

  #pends(event, row) {
    if (event.kind === "call.decided" && row.call !== event.call) return;
    const { asks = [], in_doubt: doubts = [] } = event.kind === "turn.parked" ? event.facts ?? {} : {};
    row.pending = doubts.includes(row.call) ? "in_doubt" : asks.includes(row.call) ? "asks" : "";
    this.changed.add(row.key);
  }

  #note(event) {
    if (PENDING.has(event.kind)) this.#pend(event);
    if (event.kind === "gap" && this.rows.at(-1)?.event?.kind === "gap") return;
    this.#row({ key: `n${event.cursor}`, is: "note", event });
  }
}

/** Takes the row of a prompt that waited out of `rows`. */
function unqueue(rows, name) {
  const waited = rows.findLastIndex((row) => row.event?.kind === "prompt.queued" && row.event.name === name);
  if (waited >= 0) rows.splice(waited, 1);
}

const isDelta = ({ kind }) => kind === "call.text" || kind === "call.thinking" || kind === "call.output";

/** Words of a model's answer: of a program its blocks, of a loop its message, of a script its text. */
export function answerOf(value) {
  const blocks = [...list(value?.content), ...list(value?.message?.parts)];
  const of = (kind) => blocks.filter((block) => block?.type === kind || block?.kind === kind);
  const words = [value?.text, ...of("text").map((block) => block.text), ...of("output_text").map((block) => block.text)];
  const thoughts = of("thinking").map((block) => block.thinking ?? block.text);
  return { text: joined(words), thinking: joined(thoughts) };
}

const list = (value) => (Array.isArray(value) ? value : []);
const joined = (texts) => texts.filter((text) => typeof text === "string" && text.trim()).join("\n\n").trim();

const TELLING = ["command", "file_path", "path", "pattern", "url", "description", "query", "question"];

/** What a tool was called with, in a few words: the argument that tells most, else all of them. */
export function aboutOf(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object" || Array.isArray(value)) return asLine(value);
  for (const name of TELLING) if (typeof value[name] === "string" && value[name]) return value[name];
  return Object.entries(value).map(([name, one]) => `${name}=${asLine(one)}`).join(", ");
}

const asLine = (value) => (typeof value === "string" ? value : JSON.stringify(value));
