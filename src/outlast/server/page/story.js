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
    this.#clear();
  }

  #clear() {
    this.screen = new Screen();
    this.rows = [];
    this.calls = new Map();
    this.changed = new Set();
    this.turn = null;
    this.attempts = 0;
    /** The fence of the attempt that stands: only what it wrote ends the turn. */
    this.worker = "";
    this.opened = null;
  }

  /** Takes in what comes. Keys of rows that are not as they were are in `changed` until `taken`. */
  add(events) {
    for (const event of events) {
      this.events.push(event);
      this.#apply(event);
    }
  }

  /** Puts older events before those that are here. What deltas of settled calls showed is void: they go. */
  addOlder(events) {
    const all = [...events, ...this.events];
    const settled = new Set(all.filter((event) => event.kind === "call.settled").map((event) => event.call));
    const kept = all.filter((event) => !(isDelta(event) && settled.has(event.call)));
    this.#clear();
    this.events = [];
    this.add(kept);
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
    if (event.turn && !this.turn && kind !== "turn.opened") this.turn = { ...turnOf(event.turn), whole: false };
    if (kind.startsWith("call.") && kind !== "call.decided") this.#call(event);
    else if (kind === "turn.opened") this.#begins(event);
    else if (kind === "turn.settled") this.#ends(event);
    else if (kind === "attempt.opened") this.#attempt(event);
    else if (kind === "attempt.ended") this.#attemptEnds(event);
    else if (kind === "session.opened") this.opened = event;
    else if (NOTES.has(kind)) this.#note(event);
  }

  #begins(event) {
    this.turn = turnOf(event.turn, event.at_s);
    // A prompt that waited is told once, as the turn that it became.
    const waited = this.rows.findLastIndex((row) => row.event?.kind === "prompt.queued" && row.event.name === event.name);
    if (waited >= 0) this.rows.splice(waited, 1);
    this.#row({ key: `t${event.turn}`, is: "turn", event, turn: this.turn });
  }

  #ends(event) {
    if (this.turn) {
      this.turn.status = event.status;
      this.changed.add(`t${this.turn.number}`);
    }
    this.#row({ key: `e${event.cursor}`, is: "end", event, turn: this.turn });
    this.turn = null;
  }

  #attempt(event) {
    this.worker = event.facts?.worker ?? "";
    if (!this.turn) return;
    this.turn.attempts += 1;
    this.#row({ key: `a${event.cursor}`, is: "attempt", event, number: this.turn.whole ? this.turn.attempts : 0 });
    for (const call of this.turn.open) this.changed.add(`c${call}`);
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
    const asks = event.kind === "turn.parked" ? event.facts ?? {} : {};
    const named = new Map([...(asks.asks ?? []).map((call) => [call, "asks"]), ...(asks.in_doubt ?? []).map((call) => [call, "in_doubt"])]);
    for (const row of this.openCalls) {
      if (event.kind === "call.decided" && row.call !== event.call) continue;
      row.pending = named.get(row.call) ?? "";
      this.changed.add(row.key);
    }
  }

  #note(event) {
    if (PENDING.has(event.kind)) this.#pend(event);
    if (event.kind === "gap" && this.rows.at(-1)?.event?.kind === "gap") return;
    this.#row({ key: `n${event.cursor}`, is: "note", event });
  }
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
