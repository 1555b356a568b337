// The files of a session as its log has them: a tree, a file, and what a turn changed.

import { addressed, fetched } from "./api.js";
import { diffOf, patchLines } from "./diff.js";
import { button, el, fill } from "./dom.js";
import { mono } from "./output.js";
import { go, to } from "./router.js";
import { endings } from "./store.js";
import { bytes, plain } from "./words.js";

const IMAGES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
/** Bytes of a file that is shown. */
const MOST = 1_000_000;

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
      fill(list, el("p", { class: error.status === 404 ? "dim" : "why" }, error.status === 404 ? "No file." : error.message));
      if (error.status === 404) fill(place, el("p", { class: "nothing" }, el("strong", {}, "The log holds no files yet."), "What the agent writes stands here from the first commit that keeps it, whether or not a worker runs."));
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
  const entries = [...found.files].sort((a, b) => Number(b.kind === "dir") - Number(a.kind === "dir") || a.path.localeCompare(b.path));
  if (!entries.length && !path) return fill(into, el("p", { class: "dim" }, "No file."));
  fill(into, el("ul", {}, entries.map((entry) => el("li", {}, entry.kind === "dir" ? below(entry, { api, place }) : leaf(entry, { api, place }))),
    found.more && el("li", { class: "dim" }, "More than are listed here.")));
}

const nameOf = (path) => path.split("/").filter(Boolean).at(-1) ?? path;

function below(entry, desk) {
  const inner = el("div", {});
  const made = el("details", { on: { toggle: () => {
    if (made.open && !inner.hasChildNodes()) folder(inner, entry.path, desk).catch((error) => fill(inner, el("p", { class: "why" }, error.message)));
  } } }, el("summary", {}, `${plain(nameOf(entry.path))}/`), inner);
  return made;
}

function leaf(entry, { api, place }) {
  if (entry.kind === "link") return el("span", {}, `${plain(nameOf(entry.path))} → ${plain(entry.target)}`);
  return el("button", { type: "button", class: "link-like", on: { click: () => look(place, api, entry) } },
    plain(nameOf(entry.path)), el("span", { class: "dim" }, ` ${bytes(entry.size)}`));
}

async function look(place, api, { path, size }) {
  const address = addressed(`${api.base}/files/content`, { path });
  const head = [el("h2", {}, plain(path)), el("p", { class: "dim" }, bytes(size), " · ", el("a", { href: address, download: nameOf(path) }, "Download"))];
  fill(place, head);
  if (size > MOST) return fill(place, head, el("p", { class: "dim" }, "It is too long to be shown here."));
  try {
    fill(place, head, await shown(path, await (await fetched(address)).blob()));
  } catch (error) {
    fill(place, head, el("p", { class: "why" }, error.message));
  }
}

async function shown(path, blob) {
  const media = IMAGES[path.split(".").at(-1).toLowerCase()];
  if (media) return el("img", { class: "shown", src: await address(blob, media), alt: `The image ${path}` });
  const text = await blob.text();
  return text.includes("\u0000") ? el("p", { class: "dim" }, "It is no text.") : mono(text, path);
}

/** The bytes as an address of their own: the policy lets no other image in. */
function address(blob, media) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([blob], { type: media }));
  });
}

async function changed(list, place, api, turn) {
  const { changes, more } = await api.ask("/files/diff", { query: { turn } });
  const go = (at) => document.getElementById(`change-${at}`)?.scrollIntoView({ block: "start" });
  fill(list, el("ul", {}, changes.map((one, at) => el("li", {}, button(plain(one.path), () => go(at), { class: "link-like" }), el("span", { class: "dim" }, ` ${one.what}`)))));
  fill(place, el("h2", {}, `What turn ${turn} changed`), changes.map(change), more && el("p", { class: "dim" }, "More than are listed here."),
    !changes.length && el("p", { class: "dim" }, "Nothing."));
}

function change(one, at) {
  return el("section", { id: `change-${at}` }, el("h3", {}, plain(one.path), el("span", { class: "dim" }, ` ${one.what}`)),
    one.lines.length ? diffOf(patchLines(one.lines.map((line) => line.replace(/\n$/, "")).join("\n")), `What changed in ${one.path}`) : null,
    one.more && el("p", { class: "dim" }, "More lines than are shown here."));
}
