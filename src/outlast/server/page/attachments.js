// Files that come with a prompt: shown where a turn begins, chosen where one is said.

import { button, el, fill } from "./dom.js";
import { bytes, short } from "./words.js";

/** What a browser shows as a picture and can run nothing; all else is only offered for keeping. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const COUNT = 20;
const BYTES = 3_932_160;

/** What came with a prompt, as its event says; null where nothing did. */
export function attached(event, api) {
  const found = event.facts?.attachments ?? [];
  if (!found.length) return null;
  return el("ul", { class: "attached", "aria-label": "Attachments" }, found.map((one) => el("li", {}, picture(one, api), link(one, api))));
}

const at = (one, api) => `${api.base}/blobs/${encodeURIComponent(one.ref)}`;

function picture(one, api) {
  if (!PICTURES.has(one.media_type)) return null;
  return el("img", { src: at(one, api), alt: short(one.name, 80), loading: "lazy" });
}

function link(one, api) {
  return el("a", { href: at(one, api), download: one.name }, `${short(one.name, 80)} (${bytes(one.size)})`);
}

/** Where files are chosen. Returns `{node, taken(), clear(), wrong(listener)}`; `taken` is what a prompt is sent with. */
export function chooser(id, failed) {
  let chosen = [];
  const list = el("ul", { class: "chosen", "aria-label": "Files to send" });
  const input = el("input", { id: `${id}-files`, type: "file", multiple: true, class: "file", on: { change: () => take() } });
  const label = el("label", { for: `${id}-files`, class: "attach" }, "Attach files");
  const draw = () => fill(list, chosen.map((one) => el("li", {}, short(one.name, 60),
    button("Remove", () => drop(one), { "aria-label": `Remove ${short(one.name, 60)}` }))));
  const drop = (one) => {
    chosen = chosen.filter((other) => other !== one);
    draw();
  };
  const take = async () => {
    failed("");
    for (const file of input.files) {
      if (chosen.length >= COUNT) failed(`A prompt has at most ${COUNT} attachments.`);
      else if (!file.size || file.size > BYTES) failed(`${short(file.name, 60)} is empty, or larger than ${bytes(BYTES)}.`);
      else chosen.push({ name: file.name, base64: await base64(file) });
    }
    input.value = "";
    draw();
  };
  const clear = () => {
    chosen = [];
    draw();
  };
  return { node: el("div", { class: "attaching" }, input, label, list), taken: () => chosen, clear };
}

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(file);
  });
}
