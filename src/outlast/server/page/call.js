// A call in the conversation: a model's words, or a tool with its arguments, what it changes and what came of it.

import { diffOf, editOf } from "./diff.js";
import { button, el, fill } from "./dom.js";
import { json, mono, resultOf } from "./output.js";
import { prose } from "./prose.js";
import { aboutOf, answerOf, MAIN } from "./story.js";
import { age, bytes, clock, plain, short, terminal, took, usageText } from "./words.js";

export const MARK = { open: "◌", ok: "●", error: "✗", in_doubt: "?", interrupted: "↷", cancelled: "○" };
const WORD = { open: "runs", ok: "", error: "failed", in_doubt: "in doubt", interrupted: "interrupted", cancelled: "cancelled" };
/** Payloads behind a blob that are fetched without being asked for. */
const SMALL = 256_000;
const TAIL = 4000;

/** Draws the row of a call. `page` is what it stands on: the session's api, what is unfolded, `fork(call)`. */
export function callPart(row, page) {
  return row.view.kind === "model" || (!row.view.kind && row.view.settled?.usage) ? modelPart(row, page) : toolPart(row, page);
}

function laneOf(view) {
  const lane = view.lane && view.lane !== MAIN ? view.lane : "";
  return lane && el("span", { class: "lane", title: `Lane ${plain(lane)}` }, short(lane, 24));
}

const laneClass = (view) => (view.lane && view.lane !== MAIN ? ` side side-${sum(view.lane) % 6}` : "");
const sum = (text) => [...text].reduce((total, letter) => (total * 31 + letter.codePointAt(0)) >>> 0, 7);

function modelPart(row, page) {
  const head = el("div", { class: "meta" });
  const thought = el("div", { class: "thoughts" });
  const words = el("div", { class: "words" });
  const node = el("div", { class: `call model${laneClass(row.view)}` }, thought, words, head);
  let settled = null;
  const settle = async () => {
    settled = row.view.settled;
    const answer = await valueOf(settled.payload, page);
    const { text, thinking } = answerOf(answer);
    drawThinking(thought, thinking, `${row.key}-thinking`, page);
    const error = settled.status === "ok" ? null : typeof answer === "string" ? answer : answer?.error ?? null;
    fill(words, text && prose(text), error && el("p", { class: "why" }, short(typeof error === "string" ? error : JSON.stringify(error), 600)));
    node.classList.toggle("silent", !text && !error && !thinking);
  };
  const update = () => {
    const { view } = row;
    fill(head, modelMeta(row, page));
    node.classList.toggle("open", !view.settled);
    if (view.settled) {
      if (settled !== view.settled) settle();
      return;
    }
    const live = view.shown;
    drawThinking(thought, live.thinking?.text ?? "", `${row.key}-thinking`, page, true);
    fill(words, live.text ? el("div", { class: "prose live", dir: "auto" }, el("p", {}, plain(live.text.text))) : null);
  };
  update();
  return { node, update };
}

function modelMeta(row, page) {
  const { view } = row;
  const usage = view.settled?.usage;
  const state = view.settled ? WORD[view.status] ?? view.status : "writes";
  return [
    mark(view), el("span", { class: "what" }, short(view.name || "model", 40)), laneOf(view),
    state && el("span", { class: `state is-${view.status}` }, state),
    row.retracted && !view.settled && el("span", { class: "state" }, "begins again"),
    [tookText(row), usageText(usage)].filter(Boolean).map((text) => el("span", {}, text)),
    el("span", { class: "grow" }), page.fork && forkButton(row, page),
  ];
}

function tookText(row) {
  const duration = row.view.settled?.facts?.duration_s;
  return duration ? took(duration) : row.view.settled ? "" : clock(row.startedS);
}

function mark(view) {
  return el("span", { class: `mark is-${view.status}`, "aria-hidden": "true" }, MARK[view.status] ?? "●");
}

function drawThinking(into, text, key, page, live = false) {
  if (!text) return void fill(into);
  const fold = into.querySelector("details");
  if (fold) return void (fold.lastChild.textContent = plain(text));
  const open = page.unfolded.has(key);
  const made = el("details", { open, on: { toggle: () => page.keep(key, made.open) } },
    el("summary", {}, live ? "Thinks" : "Thought"), el("div", { class: "thinking", dir: "auto" }, plain(text)));
  fill(into, made);
}

function toolPart(row, page) {
  const head = el("button", { type: "button", class: "head", "aria-expanded": "false" });
  const body = el("div", { class: "body" });
  const node = el("div", { class: `call tool${laneClass(row.view)}` }, head, body);
  let drawn = "";
  const draw = async () => {
    const open = page.unfolded.has(row.key);
    head.setAttribute("aria-expanded", String(open));
    node.classList.toggle("unfolded", open);
    const live = row.view.shown.output?.text ?? "";
    const wanted = `${open} ${row.view.status} ${row.pending ?? ""} ${live.length} ${Boolean(row.opened)} ${row.verdict?.cursor ?? ""}`;
    if (drawn === wanted) return;
    drawn = wanted;
    const parts = open ? await whole(row, page) : await glance(row, page, live);
    if (drawn === wanted) fill(body, parts);
  };
  const update = () => {
    const { view } = row;
    node.dataset.status = view.status;
    const about = row.opened?.payload?.ref ? `(${bytes(row.opened.payload.size)})` : aboutOf(row.opened?.payload?.json);
    const state = stateOf(row);
    fill(head, mark(view), el("span", { class: "what" }, short(view.name || `call ${row.call}`, 40)), laneOf(view),
      el("span", { class: "about" }, short(about, 200)), el("span", { class: "grow" }),
      state && el("span", { class: `state is-${row.pending ? "in_doubt" : view.status}` }, state), el("span", { class: "took" }, tookText(row)));
    draw();
  };
  head.addEventListener("click", () => {
    page.keep(row.key, !page.unfolded.has(row.key));
    draw();
  });
  update();
  return { node, update };
}

function stateOf({ view, pending, opened }) {
  if (view.settled) return WORD[view.status] ?? view.status;
  if (pending) return pending === "asks" ? "wants to be allowed" : "in doubt";
  return opened?.facts?.kind === "wait" ? "waits" : "runs";
}

/** Of a call that is folded: its diff, the end of what it writes, or the beginning of what came of it. */
async function glance(row, page, live) {
  const given = await valueOf(row.opened?.payload, page);
  const edit = editOf(given);
  const parts = [];
  if (edit) parts.push(el("div", { class: "glance" }, diffOf(edit.lines, `What it changes in ${short(edit.path)}`)));
  if (live && !row.view.settled) parts.push(el("pre", { class: "mono tail", tabindex: "0", "aria-label": "Output so far" }, terminal(live.slice(-TAIL))));
  else if (row.view.settled && (!edit || row.view.status !== "ok")) {
    const result = resultOf(await valueOf(row.view.settled.payload, page), row.view.name);
    if (result.length) parts.push(el("div", { class: "glance" }, result));
  }
  return parts;
}

async function whole(row, page) {
  const { view, opened } = row;
  const given = await valueOf(opened?.payload, page, true);
  const edit = editOf(given);
  const settled = view.settled && resultOf(await valueOf(view.settled.payload, page, true), view.name);
  const live = view.shown.output?.text;
  return [
    el("h4", {}, "Arguments"), edit ? diffOf(edit.lines, "What it changes") : argumentsOf(given),
    row.verdict && el("p", { class: "fact" }, `Its own check says: ${row.verdict.status.replaceAll("_", " ")} ${short(row.verdict.text ?? "", 300)}`),
    settled?.length ? [el("h4", {}, "Result"), settled] : null,
    !view.settled && live ? [el("h4", {}, "Output so far"), mono(live, view.name)] : null,
    facts(row, page),
  ];
}

export function argumentsOf(given) {
  if (given === null || given === undefined) return el("p", { class: "fact" }, "None.");
  if (typeof given.command === "string" && Object.keys(given).length <= 3) return mono(`$ ${given.command}`);
  return json(given, "Arguments");
}

function facts(row, page) {
  const { opened } = row;
  const said = [
    `call ${row.call}`, opened?.facts?.policy && `policy ${opened.facts.policy}`,
    opened?.at_s && `asked ${clock(opened.at_s)}`, opened?.attempt && `fence ${opened.attempt}`,
    opened?.facts?.until_s && `until ${age(opened.facts.until_s - Date.now() / 1000)} from now`,
  ].filter(Boolean);
  const child = opened?.facts?.child;
  return el("p", { class: "fact" }, said.join(" · "),
    child && [" · ", el("a", { href: `#/sessions/${encodeURIComponent(child)}` }, `session ${child}`)],
    page.fork && [" · ", forkButton(row, page)]);
}

function forkButton(row, page) {
  if (!row.view.settled) return null;
  return button(["Fork", el("span", { class: "far" }, " from here")], () => page.fork(row), { class: "link-like", "aria-label": `Fork from behind call ${row.call}` });
}

async function valueOf(payload, page, wanted = false) {
  if (!payload) return null;
  if (payload.ref && payload.size > SMALL && !wanted) return `(${bytes(payload.size)}: unfold it to read it)`;
  try {
    return await page.api.value(payload);
  } catch (error) {
    return `(${error.message})`;
  }
}
