// What a session waits for, as cards: what would happen, its arguments, what is known, and what can be decided.

import { ApiError } from "./api.js";
import { argumentsOf } from "./call.js";
import { changes, diffOf, editOf } from "./diff.js";
import { button, el, fill, say } from "./dom.js";
import { json } from "./output.js";
import { to } from "./router.js";
import { asText, figure, moment, plain, short } from "./words.js";

const RULING = {
  done: "It is done", run_again: "Run it again", failed: "It failed", compensate: "Compensate it", allow: "Allow", deny: "Deny",
};
const POLICY = {
  never: "It may not run twice by itself.",
  verify: "Its own check was asked first, and could not tell.",
  keyed: "The outside knows it by a key, which is too old to be trusted now.",
  safe: "It may run again.",
};

/**
 * A card for one awaited thing. `send(body)` posts a decision, `desk` has what else a card may need: `value(payload)`,
 * `retry()`, `cancel()`.
 */
export function card(awaited, desk) {
  const body = el("div", { class: "card-body" });
  const name = `card-${awaited.call}-${awaited.what}`;
  const node = el("section", { class: `card is-${awaited.what}`, "aria-labelledby": name },
    el("h3", { id: name }, titleOf(awaited)), body);
  const draw = { decision, answer, person, signal, child, time: moments }[awaited.what] ?? other;
  Promise.resolve(draw(awaited, desk)).then((parts) => fill(body, parts), (error) => fill(body, el("p", { class: "why" }, error.message)));
  return node;
}

function titleOf(awaited) {
  const { known } = awaited;
  if (awaited.what === "decision" && known) {
    const allowed = awaited.rulings.includes("allow");
    return allowed ? `May ${short(known.name, 60)} run?` : `${short(known.name, 60)} may have run, or not`;
  }
  if (awaited.what === "answer") return `Call ${awaited.call} asks you`;
  if (awaited.what === "person") return awaited.why === "budget" ? "A budget is used up" : `The turn is ${awaited.why}`;
  return { signal: "Waits for a signal", child: "Waits for another session", time: "Sleeps" }[awaited.what] ?? "Waits";
}

async function decision(awaited, desk) {
  const { known } = awaited;
  const given = known ? await desk.value(known.arguments) : null;
  const edit = editOf(given);
  const witness = known?.witness ? await desk.value(known.witness) : null;
  return [
    known ? [el("h4", {}, known.begun ? "What may have happened" : "What would happen"),
      edit ? [el("p", { class: "fact" }, short(edit.path, 300)), diffOf(edit.lines, "What it changes")] : argumentsOf(given)]
      : el("p", {}, plain(awaited.text)),
    known && el("h4", {}, "What is known"), known && el("ul", { class: "known" }, knownOf(awaited, known).map((one) => el("li", {}, one))),
    witness !== null && el("details", {}, el("summary", {}, "Noted when it was let go"), json(witness, "Witness")),
    choices(awaited, desk),
  ];
}

function knownOf(awaited, known) {
  return [
    known.why && `A rule asks: ${short(known.why, 400)}`,
    known.begun ? `It was let go in the attempt with the fence ${known.started ?? "?"}; nothing says how it ended.` : awaited.rulings.includes("allow") && "It has not begun.",
    !awaited.rulings.includes("allow") && (POLICY[known.policy ?? "never"] ?? ""),
    known.verdict && `Its own check says ${known.verdict.replaceAll("_", " ")}${known.note ? `: ${short(known.note, 300)}` : ""}.`,
    known.compensation && `${short(known.compensation, 60)} would make it good.`,
    known.compensates && `It makes call ${known.compensates} good.`,
    known.compensated_by && `Call ${known.compensated_by} was to make it good, and ended as ${known.compensated}.`,
    known.asked_at_s && `Asked for at ${moment(known.asked_at_s)}, as call ${awaited.call}.`,
  ].filter(Boolean);
}

/** The buttons of a decision, with a field for its text where one can be given. */
function choices(awaited, desk) {
  const wrong = el("p", { class: "why", role: "alert" });
  const id = `say-${awaited.call}-${Math.random().toString(36).slice(2)}`;
  const takesText = awaited.rulings.some((one) => one === "done" || one === "failed" || one === "deny");
  const text = el("textarea", { id, rows: 1, spellcheck: "false" });
  const all = el("div", { class: "buttons" });
  const decide = (ruling, extra = {}) => {
    const given = text.value.trim();
    const value = ruling === "done" ? result(given) : ruling === "failed" || ruling === "deny" ? given || null : null;
    return sent(all, wrong, async () => {
      await desk.decide({ call: awaited.call, ruling, value, ask: awaited.ask, ...extra });
      say(`Decided: ${RULING[ruling]}.`);
      return `Decided: ${RULING[ruling]}. The session goes on with it.`;
    });
  };
  fill(all, awaited.rulings.map((ruling, at) => button(RULING[ruling] ?? ruling, () => decide(ruling), { class: at ? null : "main" })),
    desk.forTurn !== false && awaited.rulings.includes("allow") && button("Allow for this turn", () => decide("allow", { for_turn: true })));
  return [
    takesText && el("div", { class: "field" }, el("label", { for: id }, labelOf(awaited.rulings)), text), wrong, all,
  ];
}

const labelOf = (rulings) => rulings.includes("done") ? "Its result, or why it failed (text or JSON)" : "Why not (the model reads it)";

/** JSON where it is JSON, else the text itself. */
function result(given) {
  if (!given) return null;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

/** A card that somebody answers stays until they are told what became of that, whatever else is known by then. */
async function sent(all, wrong, act) {
  const node = all.closest(".card");
  wrong.textContent = "";
  lock(all, true);
  node.dataset.sends = "";
  try {
    fill(all, el("p", { class: "fact" }, await act()));
    if (node.dataset.late) node.remove();
  } catch (error) {
    if (error instanceof ApiError && error.status === 409) return overtaken(all, error);
    wrong.textContent = error.message;
    lock(all, false);
  }
  delete node.dataset.sends;
}

/** Somebody else was faster: said until it is read, and nothing more can be decided here. */
function overtaken(all, error) {
  fill(all, el("p", { class: "why", role: "alert" }, `This did not count. ${error.message}`), button("Close", () => all.closest(".card").remove()));
}

/** Takes a card away that nobody has to answer any more. */
export function leave(node) {
  if (node.dataset.sends === undefined) node.remove();
  else node.dataset.late = "1";
}

function lock(all, locked) {
  for (const one of all.querySelectorAll("button")) one.disabled = locked;
}

function answer(awaited, desk) {
  const wrong = el("p", { class: "why", role: "alert" });
  const all = el("div", { class: "buttons" });
  const send = (value) => sent(all, wrong, async () => {
    await desk.decide({ call: awaited.call, ruling: "done", value, ask: awaited.ask });
    say("Answered.");
    return `Answered: ${short(String(value), 200)}`;
  });
  const asked = el("p", { class: "asked", dir: "auto" }, plain(awaited.text));
  if (awaited.choices.length) {
    fill(all, awaited.choices.map((one, at) => button(short(one, 120), () => send(one), { class: at ? null : "main" })));
    return [asked, wrong, all];
  }
  const text = el("textarea", { rows: 2, "aria-label": "Your answer" });
  fill(all, button("Answer", () => send(text.value), { class: "main" }));
  return [asked, text, wrong, all];
}

function person(awaited, desk) {
  const wrong = el("p", { class: "why", role: "alert" });
  const act = (what) => async () => {
    try {
      await what();
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  return [
    el("p", {}, plain(awaited.text)),
    el("div", { class: "evidence" }, el("h4", {}, "The evidence"), evidence(awaited.evidence)),
    wrong,
    desk.retry && el("div", { class: "buttons" }, button("Let it go on", act(desk.retry), { class: "main" }), button("Cancel the turn", act(desk.cancel))),
  ];
}

/** The parts of the evidence; of a divergence the two sides as what one has and the other has not. */
function evidence(facts) {
  const { logged, now, ...rest } = facts ?? {};
  const both = logged !== undefined && now !== undefined;
  const entries = Object.entries(both ? rest : facts ?? {});
  if (!entries.length && !both) return el("p", { class: "fact" }, "None was written down.");
  return [listed(entries), both && [
    el("p", { class: "fact" }, "− as the log has it, + as it is asked for now"),
    diffOf(changes(asText(logged), asText(now)), "As the log has it, and as it is asked for now")]];
}

function listed(entries) {
  return el("dl", { class: "facts" }, entries.map(([name, value]) => [
    el("dt", {}, name.replaceAll("_", " ")),
    el("dd", {}, typeof value === "object" && value !== null ? json(value, name) : typeof value === "number" ? figure(value) : plain(String(value))),
  ]));
}

function signal(awaited) {
  return [el("p", {}, plain(awaited.text))];
}

function child(awaited) {
  return [el("p", {}, plain(awaited.text)), el("p", {}, el("a", { href: to("sessions", awaited.child) }, "Open that session"))];
}

function moments(awaited) {
  return [el("p", {}, awaited.until_s ? `Until ${moment(awaited.until_s)}.` : plain(awaited.text))];
}

const other = (awaited) => [el("p", {}, plain(awaited.text))];
