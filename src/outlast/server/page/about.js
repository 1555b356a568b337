// What a session is and has spent; and what is done to it as a whole.

import { formDialog } from "./dialog.js";
import { button, el, fill } from "./dom.js";
import { json } from "./output.js";
import { go, to } from "./router.js";
import { dollars, figure, moment, plain } from "./words.js";

export function about(into, api, known) {
  const place = el("section", { class: "sheet" });
  fill(into, place);
  draw(place, api, known);
  api.ask("").then((now) => draw(place, api, now), () => {});
  return () => {};
}

function draw(place, api, known) {
  const { head } = known;
  const usage = spent(known);
  fill(place, el("h2", {}, "Used"), el("dl", { class: "facts figures" }, [
    ["Model input", `${figure(usage.input_tokens)} tokens`], ["read from the provider's cache", `${figure(usage.cache_read_tokens)} tokens`],
    ["written to it", `${figure(usage.cache_write_tokens)} tokens`], ["Model output", `${figure(usage.output_tokens)} tokens`], ["At list price", dollars(usage.cost_usd)],
  ].map(pair)),
  el("h2", {}, "What it is"), el("dl", { class: "facts" }, [
    ["Agent", head.agent], ["Turns", figure(known.turns)], ["Commits", figure(head.seq)], ["Opened", moment(head.created_at_s)], ["Last change", moment(head.updated_at_s)],
    ["Works in", known.cwd || "a directory of its own"], ["Placement", head.placement], ["Worker", head.worker ?? "none holds it"], ["Fence", figure(head.fence)],
    known.parent && ["Spawned by", el("a", { href: to("sessions", known.parent) }, known.parent)],
    known.forked_from && ["Fork of", el("a", { href: to("sessions", known.forked_from) }, `${known.forked_from}, commit ${known.forked_at}`)],
  ].filter(Boolean).map(pair)),
  el("details", {}, el("summary", {}, "Settings"), json(known.settings ?? {}, "Settings")),
  el("h2", {}, "Export, erase"),
  el("p", { class: "dim" }, "An export is the whole session in a file: its log, its blobs, its files."),
  el("div", { class: "buttons" }, el("a", { class: "as-button", href: `${api.base}/export`, download: true }, "Export"),
    button("Erase…", () => erase(api), { class: "danger" })));
}

/** What settled turns have used, and the open one so far. */
export function spent({ usage = {}, open_turn: open }) {
  const names = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd"];
  return Object.fromEntries(names.map((name) => [name, (usage[name] ?? 0) + (open?.usage?.[name] ?? 0)]));
}

const pair = ([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "string" ? plain(value) : value)];

async function erase(api) {
  const done = await formDialog("Erase the session", [
    { name: "typed", label: `Type ${api.id} to erase it`, required: true },
    { name: "force", label: "While its turn is open", kind: "choice", choices: ["refuse", "erase all the same"] },
  ], async ({ typed, force }) => {
    if (typed.trim() !== api.id) throw new Error(`That is not ${api.id}: nothing was erased.`);
    await api.ask("", { method: "DELETE", query: { force: force === "refuse" ? null : "true" } });
  }, { verb: "Erase for good", danger: true, about: el("p", {}, "Its log, its blobs and what waits for it are removed for good. Its name is never used again.") });
  if (done) go("#/");
}
