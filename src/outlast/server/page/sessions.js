// All sessions: searched, filtered, live.

import { ask, v1 } from "./api.js";
import { formDialog } from "./dialog.js";
import { button, el, fill } from "./dom.js";
import { go, here, to } from "./router.js";
import { stateChip, STATES, stateOf, wordOf } from "./states.js";
import { endings, everyFrame } from "./store.js";
import { age, plain, plural, short } from "./words.js";

const PAGE = 50;
const SEARCH_MS = 150;

export function sessionsView(into, link) {
  const over = endings();
  const wanted = wantedOf(here().query);
  const rows = new Map();
  const table = el("ul", { class: "sessions", "aria-label": "Sessions" });
  const said = el("div", { class: "dim", role: "status" });
  const more = button("Show more", () => next());
  const agents = el("select", { id: "agent", on: { change: () => change({ agent: agents.value }) } }, el("option", { value: "" }, "every agent"));
  let following = null;
  let asked = 0;

  fill(into, el("section", { class: "list" },
    el("header", {}, el("h1", {}, "Sessions"), el("span", { class: "grow" }), button("New session", () => open([...new Set([...rows.values()].map(({ agent }) => agent))]), { class: "main", id: "new" })),
    filters(wanted, agents, change), table, said, more));
  const frame = everyFrame(() => draw(table, rows, said, wanted, agents));
  over.add(() => frame.end());

  function change(some) {
    Object.assign(wanted, some);
    const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    history.replaceState(null, "", `#/sessions${query.size ? `?${query}` : ""}`);
    load();
  }

  async function load() {
    const mine = ++asked;
    try {
      const page = await asks(wanted);
      if (mine !== asked) return;
      rows.clear();
      take(page);
    } catch (error) {
      said.textContent = error.message;
    }
  }

  async function next() {
    more.disabled = true;
    try {
      take(await asks(wanted, following));
    } catch (error) {
      said.textContent = error.message;
    }
    more.disabled = false;
  }

  function take(page) {
    for (const row of page.sessions) rows.set(row.session, row);
    following = page.next;
    more.hidden = !following;
    frame.ask();
  }

  over.add(link.follow((row) => {
    if (row.erased) rows.delete(row.session);
    else if (rows.has(row.session) || fits(row, wanted)) rows.set(row.session, row);
    frame.ask();
  }));
  const clock = setInterval(() => frame.ask(), 15_000);
  over.add(() => clearInterval(clock));
  load();
  return { end: () => over.end(), show: () => {} };
}

const wantedOf = (query) => ({ q: query.get("q") ?? "", state: query.get("state") ?? "", agent: query.get("agent") ?? "", label: query.get("label") ?? "" });

const asks = ({ q, state, agent, label }, after) => ask(`${v1}/sessions`, {
  query: { q, agent, label, limit: PAGE, after, state: { working: "open", waiting: "open", ready: "open" }[state] ?? state },
});

function filters(wanted, agents, change) {
  let timer = 0;
  const typed = (name) => (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => change({ [name]: event.target.value.trim() }), SEARCH_MS);
  };
  const states = el("select", { id: "state", on: { change: () => change({ state: states.value }) } },
    el("option", { value: "" }, "every state"), STATES.map((one) => el("option", { value: one, selected: one === wanted.state }, wordOf(one))));
  return el("form", { class: "filters", role: "search", on: { submit: (event) => event.preventDefault() } },
    named("search", "Search", el("input", { type: "search", id: "search", value: wanted.q, placeholder: "Search", on: { input: typed("q") } })),
    named("state", "State", states), named("agent", "Agent", agents),
    named("label", "Label", el("input", { id: "label", value: wanted.label, placeholder: "label=value", spellcheck: "false", on: { input: typed("label") } })));
}

const named = (id, text, input) => el("div", {}, el("label", { for: id, class: "unseen" }, text), input);

function fits(row, { q, state, agent, label }) {
  const texts = [row.session, row.agent, row.status ?? "", ...Object.entries(row.labels ?? {}).flat()];
  const [name, value] = label.split("=");
  return (!q || texts.some((text) => text.toLowerCase().includes(q.toLowerCase())))
    && (!state || stateOf(row) === state) && (!agent || row.agent === agent) && (!label || row.labels?.[name] === value);
}

function draw(table, rows, said, wanted, agents) {
  const shown = [...rows.values()].filter((row) => fits(row, wanted)).sort((a, b) => b.updated_at_s - a.updated_at_s);
  const held = document.activeElement?.closest?.("li[data-session]")?.dataset.session;
  fill(table, shown.map(line));
  if (held) table.querySelector(`li[data-session="${CSS.escape(held)}"] a`)?.focus({ preventScroll: true });
  const filtered = wanted.q || wanted.state || wanted.agent || wanted.label;
  fill(said, shown.length ? null : filtered ? el("p", { class: "nothing" }, "No session fits. Take a filter away to see more.") : beginning());
  for (const name of new Set([...rows.values()].map((row) => row.agent))) {
    if ([...agents.options].every((option) => option.value !== name)) {
      agents.append(el("option", { value: name, selected: name === wanted.agent }, short(name, 40)));
    }
  }
}

/** What to do where nothing is yet. */
function beginning() {
  return el("div", { class: "nothing" }, el("strong", {}, "There is no session yet."), el("p", {}, "Begin one with New session, and a worker carries it out:"), el("code", {}, "outlast work"),
    el("p", {}, "Or do both in a terminal:"),
    el("code", {}, 'outlast run claude-code "Add a pricing page and make its test pass"'));
}

function line(row) {
  const ago = age(Date.now() / 1000 - row.updated_at_s);
  return el("li", { data: { session: row.session } },
    el("a", { href: to("sessions", row.session), class: "to" }, el("span", { class: "id" }, row.session)),
    stateChip(row),
    el("span", { class: "agent" }, short(row.agent, 40)),
    el("span", { class: "status" }, short(row.status ?? "", 120)),
    el("span", { class: "labels" }, Object.entries(row.labels ?? {}).map(([name, value]) => el("span", { class: "label" }, `${plain(name)}=${plain(value)}`))),
    row.waiting_inputs ? el("span", { class: "dim" }, plural(row.waiting_inputs, "input waits", "inputs wait")) : null,
    el("span", { class: "took" }, `${ago} ago`));
}

/** Opens a session and sends its first prompt. */
async function open(known) {
  const made = await formDialog("New session", [
    { name: "session", label: "Name", required: true, value: `session-${Math.random().toString(36).slice(2, 8)}`, pattern: "[a-z0-9][a-z0-9._\\-]{0,127}", hint: "Small letters, digits, dots, dashes. The same name again finds the same session." },
    { name: "agent", label: "Agent", required: true, known, value: known.length === 1 ? known[0] : "", hint: "One that a worker offers: claude-code, codex, or one of your own." },
    { name: "text", label: "First prompt", kind: "area", hint: "It may be empty: the session waits then." },
  ], async ({ session, agent, text }) => {
    await ask(`${v1}/sessions`, { body: { session, agent } });
    if (text.trim()) await ask(`${v1}/sessions/${encodeURIComponent(session)}/turns`, { body: { text } });
    return session;
  }, { verb: "Open" });
  if (made) go(to("sessions", made));
}
