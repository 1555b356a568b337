// The rows of a conversation, but for calls: turns, attempts, and what happened beside them.

import { attached } from "./attachments.js";
import { callPart } from "./call.js";
import { el, fill } from "./dom.js";
import { json } from "./output.js";
import { prose } from "./prose.js";
import { to } from "./router.js";
import { asText, bytes, clock, figure, moment, plain, short, took, usageText } from "./words.js";

/** Draws a row, whatever it is. */
export function rowPart(row, page) {
  switch (row.is) {
    case "call":
      return callPart(row, page);
    case "turn":
      return turnPart(row, page);
    case "attempt":
      return { node: attempt(row) };
    case "end":
      return endPart(row, page);
    default:
      return { node: note(row, page) };
  }
}

function turnPart(row, page) {
  const words = el("div", { class: "prompt", dir: "auto", tabindex: "0", role: "group", "aria-label": "Prompt" });
  const node = el("section", { class: "turn", "aria-label": `Turn ${row.event.turn}` },
    el("p", { class: "meta" }, el("strong", {}, `Turn ${row.event.turn}`), el("span", {}, moment(row.event.at_s))), words, attached(row.event, page.api));
  page.api.value(row.event.payload).then(
    (value) => fill(words, promptText(value)),
    (error) => fill(words, el("p", { class: "why" }, error.message)),
  );
  return { node };
}

function promptText(value) {
  return plain(typeof value === "string" ? value : value?.text ?? asText(value));
}

function attempt(row) {
  const { worker = "another worker", versions = {} } = row.event.facts ?? {};
  const told = Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(", ");
  return el("p", { class: "note attempt", title: plain(told) },
    el("span", { class: "mark", "aria-hidden": "true" }, "▸"),
    el("span", {}, el("strong", {}, row.turn.whole ? `Attempt ${row.nth}` : "Another attempt"), ` goes on where the log ends · ${short(worker, 60)}`),
    el("span", { class: "grow" }), el("span", { class: "took" }, clock(row.event.at_s)));
}

function endPart(row, page) {
  const { event, turn } = row;
  const spent = usageText(event.usage);
  const lasted = turn?.atS && event.at_s ? took(event.at_s - turn.atS) : "";
  const facts = [lasted, spent, turn?.whole && turn.attempts > 1 && `${turn.attempts} attempts`].filter(Boolean).join(" · ");
  const words = el("div", {});
  const node = el("section", { class: `end is-${event.status}` },
    el("p", { class: "meta" }, el("strong", {}, `Turn ${event.turn} ${event.status}`), el("span", {}, facts)),
    event.text && el("p", { class: "why" }, plain(event.text)), words);
  // A conversation's result is the model's last text, which stands above already.
  if (event.status === "done" && !page.hasWords(event.turn)) {
    page.api.value(event.payload).then(
      (value) => value !== null && fill(words, typeof value === "string" ? prose(value) : json(value, "Result")),
      () => {},
    );
  }
  return { node };
}

function note(row, page) {
  const said = NOTE[row.event.kind]?.(row.event, page) ?? [row.event.kind];
  const [text, tone = "", extra = null] = said;
  return el("div", { class: `note ${tone}` }, el("span", { class: "mark", "aria-hidden": "true" }, SIGN[tone] ?? "»"),
    el("div", { class: "told" }, el("span", {}, text), extra), el("span", { class: "grow" }),
    el("span", { class: "took" }, clock(row.event.at_s)));
}

const SIGN = { bad: "!", ask: "?", quiet: "·", dots: "" };
const value = (event) => (event.payload?.ref ? `(${bytes(event.payload.size)})` : short(asText(event.payload?.json ?? ""), 160));
const by = (text) => (text ? ` by ${short(text, 60)}` : "");

const NOTE = {
  "gap": () => ["…", "dots"],
  "steer.taken": (event) => [`Steer: ${plain(event.text ?? "")}`, "said"],
  "prompt.queued": (event) => [`Waits as the next prompt: ${value(event)}`, "said"],
  "signal.kept": (event) => [`Signal ${short(event.name)} ${value(event)}`],
  "input.refused": (event) => [`Refused: ${short(event.text, 300)}`, "bad"],
  "document.edited": (event, page) => [
    ["Document ", el("a", { href: to("sessions", page.api.id, "documents", event.name) }, short(event.name, 80)),
      ` is version ${event.facts?.version}${by(event.facts?.by)}`]],
  "document.rejected": (event) => [`Document ${short(event.name)} stays as it is: ${short(event.text, 300)}`, "bad"],
  "files.lost": (event) => [plain(event.text ?? "Files were lost."), "bad"],
  "network.asked": (event) => [
    `${event.status === "refused" ? "Refused" : "Let through"}: ${short(event.facts?.host ?? "", 100)}:${event.facts?.port ?? ""} ${short(event.text ?? "", 120)}`,
    event.status === "refused" ? "bad" : "quiet"],
  "call.decided": (event) => [`Call ${event.call}: decided ${event.status.replaceAll("_", " ")}${by(event.text)}`, "said"],
  "turn.parked": (event) => [parkedText(event), "ask",
    event.status === "decision" ? null : el("details", {}, el("summary", {}, "The evidence"), json(event.facts ?? {}, "Evidence"))],
  "turn.released": (event) => [event.text ? `Turn ${event.turn} goes on, says ${short(event.text, 60)}` : `Turn ${event.turn} goes on`, "said"],
  "turn.continued": (event) => [`Turn ${event.turn} begins its loop again`, "quiet"],
  "session.forked": (event) => [
    ["A fork of ", el("a", { href: to("sessions", String(event.facts?.source)) }, short(String(event.facts?.source), 128)),
      ` begins here, behind commit ${figure(event.facts?.at)}`], "said"],
  "schedule.set": (event) => [`Schedule ${short(event.name)}: ${value(event)}`, "quiet"],
  "schedule.came": (event) => [`Schedule ${short(event.name)} came: ${event.status}${event.text ? `, ${short(event.text)}` : ""}`, "quiet"],
  "schedule.removed": (event) => [`Schedule ${short(event.name)} comes no more`, "quiet"],
  "attempt.ended": (event) => event.status === "waiting" ? ["Waits; no worker holds it meanwhile", "quiet"]
    : [`The attempt ended: ${event.status.replaceAll("_", " ")}. ${short(event.text ?? "", 500)}`, event.status === "handed_over" ? "quiet" : "bad"],
};

function parkedText(event) {
  if (event.status === "decision") return `Turn ${event.turn} waits for a decision`;
  return event.status === "budget" ? `Turn ${event.turn} has used up a budget` : `Turn ${event.turn} is ${event.status}`;
}
