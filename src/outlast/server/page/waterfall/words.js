// The picture in words: for the strip on top, the details of a call, and those who do not see the drawing.

import { bytes, clock, dollars, figure, moment, plain, plural, took } from "../words.js";
import { usageOf } from "./unfold.js";

const ENDED = {
  "": "goes on", settled: "ended the turn", parked: "parked the turn", waiting: "left it to wait", handed_over: "handed it over",
  provider: "was refused by the provider", failed: "failed", lost: "was lost",
};
const STATUS = { ok: "ended well", error: "ended as an error", in_doubt: "in doubt: it may have run", interrupted: "interrupted", cancelled: "cancelled" };

export const tokensOf = (usage) => (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);

/** A moment: of today its time, of another day that too. */
const when = (atS) => (Math.abs(Date.now() / 1000 - atS) < 43200 ? clock(atS) : moment(atS));

/** How long something took: seconds, minutes, hours. */
export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 129600 ? `${(s / 3600).toFixed(1)} h` : `${Math.round(s / 86400)} d`;
}

/** `12 model calls (41,203 tokens, $0.42), 8 tool calls and 3 min of work`. */
export function savedText(saved) {
  const usage = usageOf(saved);
  const models = saved.model_calls ? `${plural(saved.model_calls, "model call")} (${figure(tokensOf(usage))} tokens, ${dollars(usage.cost_usd)})` : "";
  const tools = saved.tool_calls ? plural(saved.tool_calls, "tool call") : "";
  const calls = [models, tools].filter(Boolean).join(", ");
  return calls && `${calls} and ${span(saved.busy_s)} of work`;
}

export function logText(log) {
  return log ? `${plural(log.commits ?? 0, "commit")}, ${plural(log.records ?? 0, "record")}, ${bytes(log.bytes ?? 0)}` : "";
}

/** What the log of a turn has saved, in a sentence. */
export function turnSentence(turn) {
  const { saved } = turn;
  if (saved.takeovers && savedText(saved)) {
    const times = saved.takeovers === 1 ? "Another attempt went on with it once" : `Other attempts went on with it ${figure(saved.takeovers)} times`;
    return [`${times}: the log saved `, savedText(saved), "."];
  }
  if (saved.takeovers) return ["Another attempt went on with it before anything was finished: there was nothing to save."];
  if (turn.status !== "open") return ["One attempt was enough: nothing had to be read back."];
  const now = savedText(turn.finished);
  return now ? ["If its worker is lost now, the log saves ", now, "."] : ["Nothing of it is finished yet."];
}

export function attemptText(attempt, number) {
  const died = attempt.ended === "lost" ? ` after ${when(attempt.last_s)}, noticed ${span(attempt.unnoticed_s)} later` : "";
  const read = attempt.saved.takeovers ? `; it read ${figure(attempt.saved.model_calls + attempt.saved.tool_calls)} finished calls from the log` : "";
  const why = attempt.error ? ` (${plain(attempt.error)})` : "";
  return `Attempt ${number} by ${plain(attempt.worker || "an unknown worker")} from ${when(attempt.began_s)} ${ENDED[attempt.ended] ?? attempt.ended}${died}${why}${read}`;
}

export const nameOf = (call) => plain(call.name || call.kind);

export function statusOf(bar) {
  const { call } = bar;
  if (call.status) return STATUS[call.status] ?? call.status;
  if (call.kind === "wait") return call.until_s ? `waits, until ${clock(call.until_s)}` : "waits";
  return call.tries.length ? "open" : "granted, not begun";
}

/** One line for a bar: `Bash pytest -q, ended well after 12 s, call 7 in main`. */
export function barText(bar) {
  const { call } = bar;
  const about = call.about ? ` ${plain(call.about)}` : "";
  const long = call.status && bar.parts.length ? ` after ${took(call.ran_s) || "no time"}` : "";
  const kept = bar.kept ? ", read from the log since" : "";
  return `${nameOf(call)}${about}, ${statusOf(bar)}${long}${kept}, call ${call.call} in ${plain(bar.lane.name)}`;
}

/** Everything about a call, as pairs. */
export function facts(bar, attempts) {
  const { call } = bar;
  const number = (fence) => attempts.findIndex((one) => one.attempt === fence) + 1 || "?";
  const tries = call.tries.map((one) => `${clock(one.began_s)} in attempt ${number(one.attempt)}${one.void ? ", void" : ""}`);
  const served = call.status ? attempts.filter((one) => one.attempt > call.settled_in).length : 0;
  const usage = call.usage ?? {};
  const rows = [
    ["what", `${call.kind === "model" ? "model call" : call.kind === "tool" ? `tool call, ${call.policy}` : "wait"}, call ${call.call} in ${plain(bar.lane.name)}`],
    ["how", call.tries.length ? statusOf(bar) : statusOf(bar)],
    ["ran", call.status && bar.parts.length ? took(call.ran_s) || "0 s" : ""],
    ["tries", tries.join(" · ")],
    ["tokens", call.usage ? `${figure(tokensOf(usage))} · ${dollars(usage.cost_usd)}` : ""],
    ["void answers", call.void ? `${figure(tokensOf(call.void))} tokens · ${dollars(call.void.cost_usd)}` : ""],
    ["verify said", call.verdicts.map((one) => one.replace("_", " ")).join(", ")],
    ["decided", call.decisions.map((one) => one.replace("_", " ")).join(", ")],
    ["from the log", served ? `in ${plural(served, "later attempt")}` : ""],
    ["compensates", call.compensates ? `call ${call.compensates}` : ""],
    ["spawned", plain(call.child)],
  ];
  return rows.filter(([, value]) => value);
}
