// The files of a session as its log has them: a tree, a file, and what a turn changed.

import { addressed } from "./api.js";
import { el, fill } from "./dom.js";
import { changes, diffOf, patchLines, tight } from "./diff.js";
import { mono } from "./output.js";
import { go, to } from "./router.js";
import { endings } from "./store.js";
import { bytes, plain } from "./words.js";

export function files(into, api, events, [verb = "", turn = ""]) {
  const over = endings();
  const list = el("div", { class: "tree" });
  const place = el("div", { class: "beside" });
  const turns = el("select", { id: "of-turn", on: { change: () => go(turns.value ? to("sessions", api.id, "files", "turn", turns.value) : to("sessions", api.id, "files")) } });
  fill(into, el("nav", { class: "names-nav", "aria-label": "Files" },
    el("div", { class: "field" }, el("label", { for: "of-turn" }, "Show"), turns), list), place);
  const load = async () => {
    try {
      drawTurns(turns, await api.ask(""), turn);
      if (verb === "turn") await changed(list, place, api, turn);
      else await folder(list, "", { api, place });
    } catch (error) {
      fill(list, el("p", { class: error.status === 404 ? "dim" : "why" }, error.message));
    }
  };
  over.add(events.watch((come) => come?.some(({ kind }) => kind === "files.kept") && verb !== "turn" && load()));
  load();
  return () => over.end();
}

function drawTurns(turns, known, turn) {
  const count = known.turns ?? 0;
  fill(turns, el("option", { value: "" }, "All files, as they are"),
    Array.from({ length: count }, (_, at) => count - at).slice(0, 200).map((one) => el("option", { value: one, selected: String(one) === turn }, `What turn ${one} changed`)));
}

async function folder(into, path, { api, place }) {
  const found = await api.ask("/files", { query: { path } });
  const entries = [...found.entries].sort((a, b) => Number(isFolder(b)) - Number(isFolder(a)) || a.path.localeCompare(b.path));
  if (!entries.length && !path) return fill(into, el("p", { class: "dim" }, "No file."));
  fill(into, el("ul", {}, entries.map((entry) => el("li", {}, isFolder(entry) ? below(entry, { api, place }) : leaf(entry, { api, place })))));
}

const isFolder = (entry) => entry.kind === "directory" || entry.kind === "folder" || entry.kind === "dir";
const nameOf = (entry) => entry.path.split("/").filter(Boolean).at(-1) ?? entry.path;

function below(entry, desk) {
  const inner = el("div", {});
  const made = el("details", { on: { toggle: () => {
    if (made.open && !inner.hasChildNodes()) folder(inner, entry.path, desk).catch((error) => fill(inner, el("p", { class: "why" }, error.message)));
  } } }, el("summary", {}, `${plain(nameOf(entry))}/`), inner);
  return made;
}

function leaf(entry, { api, place }) {
  return el("button", { type: "button", class: "link-like", on: { click: () => look(place, api, entry.path) } },
    plain(nameOf(entry)), el("span", { class: "dim" }, ` ${bytes(entry.size ?? 0)}`));
}

async function look(place, api, path) {
  const address = addressed(`${api.base}/files/content`, { path });
  fill(place, el("h2", {}, plain(path)), el("p", { class: "dim" }, "reads…"));
  try {
    const found = await api.ask("/files/content", { query: { path } });
    fill(place, el("h2", {}, plain(path)), el("p", {}, el("a", { href: address, download: nameOf({ path }) }, "Download")),
      mono(typeof found === "string" ? found : JSON.stringify(found, null, 2), path));
  } catch (error) {
    fill(place, el("h2", {}, plain(path)), el("p", { class: "why" }, error.message));
  }
}

async function changed(list, place, api, turn) {
  const found = await api.ask("/files/diff", { query: { turn } });
  const all = found.changes ?? found.files ?? [];
  fill(list, el("ul", {}, all.map((one, at) => el("li", {}, el("a", { href: `#change-${at}`, on: { click: (event) => {
    event.preventDefault();
    document.getElementById(`change-${at}`)?.scrollIntoView({ block: "start" });
  } } }, plain(one.path))))));
  fill(place, el("h2", {}, `What turn ${turn} changed`), all.length ? all.map((one, at) => el("section", { id: `change-${at}` }, el("h3", {}, plain(one.path)), diffOf(linesOf(one), `What changed in ${one.path}`))) : el("p", { class: "dim" }, "Nothing."));
}

function linesOf(one) {
  if (typeof one.diff === "string") return patchLines(one.diff);
  return tight(changes(one.before ?? "", one.after ?? ""));
}
