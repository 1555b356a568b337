// Events to the picture of a session: `outlast.unfolding` once more, so that what is live and what the server read from
// the log are the same. What its words mean stands in `outlast.timeline`; a test holds the two to one another.

const MAIN = "main";
const TELLING = ["command", "file_path", "path", "pattern", "url", "query", "description"];
const ABOUT = 80;
const PROMPT = 160;
const TOKENS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd"];
const COUNTS = ["takeovers", "model_calls", "tool_calls"];
const SECONDS = ["model_s", "tool_s", "busy_s"];

const plus = (one, other, names) => Object.fromEntries(names.map((name) => [name, (one?.[name] ?? 0) + (other?.[name] ?? 0)]));

export const addUsage = (one, other) => plus(one, other, TOKENS);

export function addSaved(one = {}, other = {}) {
  const models = { ...one.models };
  for (const [name, usage] of Object.entries(other.models ?? {})) models[name] = addUsage(models[name], usage);
  for (const name of Object.keys(models)) models[name] = addUsage(models[name]);
  return { ...plus(one, other, [...COUNTS, ...SECONDS]), models };
}

/** Tokens and money of all models of a `saved`. */
export const usageOf = (saved) => Object.values(saved?.models ?? {}).reduce((sum, one) => addUsage(sum, one), addUsage());

const WAITING = ["waiting", "provider"];

/** Whether the turn of these waits is parked now. */
const parked = (waits) => waits.length > 0 && !waits.at(-1).ended_s && !WAITING.includes(waits.at(-1).why);

/** Its work need not be done again. */
export function finished(call) {
  if (call.kind === "model") return call.status === "ok";
  return call.kind === "tool" && call.tries.length > 0 && (call.status === "ok" || call.status === "error");
}

/** One sequential line of a turn's calls, by number. */
const laneOf = ({ name, begun_by = 0, calls = [] }) => ({ name, begun_by, calls: new Map(calls.map((call) => [call.call, callOf(call)])) });

const callOf = (given) => ({
  name: "", policy: "never", about: "", opened_s: 0, opened_in: 0, asked_by: 0, granted: false, spawns: false, status: "",
  settled_s: 0, settled_in: 0, ran_s: 0, usage: null, void: null, retractions: 0, child: "", until_s: 0, compensates: 0,
  ...given,
  tries: [...(given.tries ?? [])], verdicts: [...(given.verdicts ?? [])], decisions: [...(given.decisions ?? [])],
});

const attemptOf = (given) => ({
  worker: "", versions: {}, began_s: 0, last_s: 0, ended: "", error: "", unnoticed_s: 0, settled: 0, saved: addSaved(), ...given,
});

/** A turn as it grows; `given` is one as the server tells it, with its lanes. */
function turnOf(given) {
  const turn = {
    input: "", prompt: "", opened_s: 0, status: "open", settled_s: 0, error: "", calls: 0,
    ...given,
    attempts: (given.attempts ?? []).map(attemptOf),
    lanes: new Map((given.lanes ?? []).map((lane) => [lane.name, laneOf(lane)])),
    waits: (given.waits ?? []).map((wait) => ({ ended_s: 0, ...wait })),
    continued: [...(given.continued ?? [])],
    usage: addUsage(given.usage), void: addUsage(given.void),
    finished: addSaved(given.finished), saved: addSaved(given.saved),
    places: new Map(), busy: [],
  };
  const over = [];
  for (const lane of turn.lanes.values()) {
    for (const call of lane.calls.values()) {
      turn.places.set(call.call, lane);
      if (finished(call)) over.push(call);
    }
  }
  over.sort((one, other) => one.settled_s - other.settled_s);
  for (const call of over) occupy(turn, call.settled_s - call.ran_s, call.settled_s);
  return turn;
}

function occupy(turn, began, ended) {
  let covered = 0;
  while (turn.busy.length && turn.busy.at(-1)[1] >= began) {
    const [earlier, until] = turn.busy.pop();
    covered += until - earlier;
    began = Math.min(began, earlier);
  }
  turn.busy.push([began, ended]);
  return Math.max(0, ended - began - covered);
}

/** Takes in the events of a session, in order and each once. `given` is a picture as the server tells it. */
export class Unfolding {
  constructor(given = {}) {
    this.cursor = given.cursor ?? "0.0";
    this.at_s = given.at_s ?? 0;
    this.behind_s = given.behind_s ?? 0;
    this.attempt = given.attempt ? attemptOf(given.attempt) : null;
    this.saved = addSaved(given.saved);
    /** The turns before the newest, without their calls. */
    this.over = [];
    this.turn = given.turn ? turnOf(given.turn) : null;
  }

  apply(event) {
    this.cursor = event.cursor;
    if (event.kind === "attempt.opened") this.behind_s = Math.max(0, this.at_s - (event.at_s ?? 0));
    if (event.at_s) this.at_s = Math.max(this.at_s, event.at_s + this.behind_s);
    const turn = this.turn;
    if (event.kind === "turn.opened") this.#open(event);
    else if (event.kind === "attempt.opened") this.#claimed(event);
    else if (event.kind === "session.forked") {
      this.saved = addSaved();
      if (this.attempt) this.attempt.saved = addSaved();
    } else if (turn && event.turn === turn.turn && turn.status === "open") {
      this.#looked(turn, event);
      this.#ofTurn(turn, event);
      const newest = turn.attempts.at(-1);
      if (newest?.attempt === (event.attempt ?? 0)) newest.last_s = this.at_s;
    }
  }

  #open(event) {
    if (this.turn) this.over.push(this.turn);
    if (this.attempt) Object.assign(this.attempt, { saved: addSaved(), settled: 0 });
    const attempts = this.attempt ? [{ ...this.attempt, began_s: this.at_s, last_s: this.at_s }] : [];
    this.turn = turnOf({ turn: event.turn, input: event.name ?? "", prompt: promptOf(event), opened_s: this.at_s, attempts });
  }

  #claimed(event) {
    const facts = event.facts ?? {};
    this.attempt = attemptOf({
      attempt: event.attempt ?? 0, worker: String(facts.worker ?? ""), versions: facts.versions ?? {}, began_s: this.at_s, last_s: this.at_s,
    });
    const turn = this.turn;
    if (turn?.status !== "open") return;
    const before = turn.attempts.at(-1);
    if (!before) return void turn.attempts.push({ ...this.attempt });
    if (!before.ended) {
      before.ended = "lost";
      before.unnoticed_s = this.at_s - before.last_s;
    }
    this.attempt.saved = { ...turn.finished, takeovers: 1 };
    if (!parked(turn.waits)) this.#goesOn(turn, this.attempt);
  }

  #goesOn(turn, attempt) {
    const newest = turn.waits.at(-1);
    if (newest && !newest.ended_s) newest.ended_s = attempt.began_s;
    turn.attempts.push({ ...attempt });
    turn.saved = addSaved(turn.saved, attempt.saved);
    this.saved = addSaved(this.saved, attempt.saved);
  }

  #looked(turn, event) {
    const attempt = this.attempt;
    if (!attempt || attempt.attempt !== (event.attempt ?? 0) || attempt.attempt === turn.attempts.at(-1)?.attempt) return;
    if (event.kind === "turn.released") this.#goesOn(turn, attempt);
    else if (event.kind === "turn.settled") this.#goesOn(turn, { ...attempt, saved: addSaved() });
    else if (event.kind === "call.settled") attempt.settled += 1;
  }

  #end(turn, how, error = "") {
    const newest = turn.attempts.at(-1);
    if (newest && !newest.ended) Object.assign(newest, { ended: how, error, last_s: this.at_s });
  }

  #rested(turn) {
    const newest = turn.waits.at(-1);
    if (newest && !newest.ended_s) newest.ended_s = this.at_s;
  }

  #wait(turn, why) {
    turn.waits.push({ why, began_s: this.at_s, ended_s: 0 });
  }

  #ofTurn(turn, event) {
    switch (event.kind) {
      case "attempt.ended":
        this.#end(turn, [...WAITING, "handed_over"].includes(event.status) ? event.status : "failed", event.text ?? "");
        if (WAITING.includes(event.status)) this.#wait(turn, event.status);
        break;
      case "turn.parked":
        this.#end(turn, "parked");
        this.#rested(turn);
        this.#wait(turn, event.status);
        break;
      case "turn.released":
        this.#rested(turn);
        break;
      case "turn.continued":
        turn.continued.push(this.at_s);
        break;
      case "turn.settled":
        this.#end(turn, "settled");
        this.#rested(turn);
        Object.assign(turn, { status: event.status, settled_s: this.at_s, error: event.text ?? "" });
        break;
      case "call.opened":
        this.#callOpened(turn, event);
        break;
      default:
        if (event.kind.startsWith("call.")) this.#ofCall(turn, event);
    }
  }

  #callOpened(turn, event) {
    const { kind = "tool", policy = "never", asked_by = 0, granted = false, spawns = false, child = "", until_s = 0, compensates = 0 } = event.facts ?? {};
    const attempt = event.attempt ?? 0;
    const name = event.lane || MAIN;
    if (!turn.lanes.has(name)) turn.lanes.set(name, laneOf({ name, begun_by: name === MAIN ? 0 : asked_by }));
    const lane = turn.lanes.get(name);
    const tries = granted ? [] : [{ attempt, began_s: this.at_s }];
    const about = aboutOf(event);
    lane.calls.set(event.call, callOf({
      call: event.call, kind, name: event.name ?? "", policy, about, opened_s: this.at_s, opened_in: attempt, asked_by, granted, spawns, tries, child, until_s, compensates,
    }));
    turn.places.set(event.call, lane);
    turn.calls = turn.places.size;
  }

  #ofCall(turn, event) {
    const call = turn.places.get(event.call)?.calls.get(event.call);
    if (!call) return;
    switch (event.kind) {
      case "call.started":
        tried(call, event.attempt ?? 0, this.at_s);
        break;
      case "call.retracted":
        this.#retracted(turn, call, event);
        break;
      case "call.verdict":
        call.verdicts.push(event.status);
        break;
      case "call.decided":
        call.decisions.push(event.status);
        break;
      case "call.settled":
        this.#settled(turn, call, event);
        break;
    }
  }

  #retracted(turn, call, event) {
    for (const one of call.tries) one.void = true;
    if (call.kind === "model") call.tries.push({ attempt: event.attempt ?? 0, began_s: this.at_s });
    call.retractions += 1;
    if (!event.usage) return;
    call.void = addUsage(call.void, event.usage);
    turn.usage = addUsage(turn.usage, event.usage);
    turn.void = addUsage(turn.void, event.usage);
  }

  #settled(turn, call, event) {
    const newest = call.tries.at(-1);
    let ran = 0;
    if (newest) {
      const ended = turn.attempts.find((one) => one.attempt === newest.attempt && one.ended);
      ran = Math.max(0, Math.min(event.facts?.duration_s ?? 0, (ended ? ended.last_s : this.at_s) - newest.began_s));
    }
    const attempt = event.attempt ?? 0;
    const usage = event.usage ?? null;
    Object.assign(call, { status: event.status, settled_s: this.at_s, settled_in: attempt, ran_s: ran, usage });
    turn.usage = addUsage(turn.usage, usage);
    if (finished(call)) turn.finished = addSaved(turn.finished, worth(call, usage, occupy(turn, this.at_s - ran, this.at_s)));
    for (const one of turn.attempts) if (one.attempt === attempt) one.settled += 1;
  }
}

function worth(call, usage, busy_s) {
  if (call.kind === "model") return { model_calls: 1, models: { [call.name]: addUsage(usage) }, model_s: call.ran_s, busy_s };
  return { tool_calls: 1, tool_s: call.spawns ? 0 : call.ran_s, busy_s };
}

/** What began with its intent begins when it is let go, and is no try more. */
function tried(call, attempt, at_s) {
  const newest = call.tries.at(-1);
  if (newest && !newest.void && newest.attempt === attempt) call.tries.pop();
  call.tries.push({ attempt, began_s: at_s });
}

const line = (text, width) => {
  const found = [...text].slice(0, width * 8).join("").split(/[ \t\r\n]+/).join(" ").replace(/^ +| +$/g, "");
  return [...found].slice(0, width).join("");
};

function aboutOf({ payload, facts }) {
  const given = payload?.json;
  if (payload?.ref || facts?.kind === "model" || typeof given !== "object" || given === null || Array.isArray(given)) return "";
  const found = TELLING.map((name) => given[name]).find((one) => typeof one === "string" && one);
  return found ? line(found, ABOUT) : "";
}

function promptOf({ payload }) {
  const given = payload?.json;
  if (typeof given === "string") return line(given, PROMPT);
  if (!Array.isArray(given) || !given.every(isBlock)) return "";
  return line(given.map((one) => one.text ?? "").join(" "), PROMPT);
}

const isBlock = (one) => typeof one === "object" && one !== null && !Array.isArray(one) && (one.text === undefined || typeof one.text === "string");

/** As the server would tell it. */
export function told(unfolding) {
  const turn = (one) => {
    const { places: _places, busy: _busy, ...rest } = one;
    return { ...rest, lanes: [...one.lanes.values()].map(({ name, begun_by, calls }) => ({ name, begun_by, calls: [...calls.values()] })) };
  };
  const turns = [...unfolding.over, ...(unfolding.turn ? [unfolding.turn] : [])].map(turn);
  return { cursor: unfolding.cursor, at_s: unfolding.at_s, behind_s: unfolding.behind_s, attempt: unfolding.attempt, turns, saved: unfolding.saved };
}
