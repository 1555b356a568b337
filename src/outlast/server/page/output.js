// What a call was given and what came of it: text, terminal output, images, or JSON.

import { el } from "./dom.js";
import { answerOf } from "./story.js";
import { asText, bytes, plain, terminal } from "./words.js";

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
/** Of one text: more is cut in the middle of nothing, at the end, and said so. */
const MOST = 200_000;

/** Elements that show the value of a result. */
export function resultOf(value, name = "") {
  if (value === null || value === undefined || value === "") return [];
  if (typeof value === "string") return [mono(value, name)];
  const shell = shellOf(value);
  if (shell !== null) return shell ? [mono(shell, name)] : [];
  const parts = partsOf(value);
  if (parts) return parts.map((part) => image(part) ?? mono(part.text ?? asText(part), name));
  const { text } = answerOf(value);
  return [mono(text || asText(value), name)];
}

export function mono(text, label = "") {
  const cut = text.length > MOST ? `${text.slice(0, MOST)}\n… ${bytes(text.length - MOST)} more` : text;
  return el("pre", { class: "mono", tabindex: "0", dir: "ltr", "aria-label": label && `Output of ${label}` }, terminal(cut));
}

export function json(value, label = "") {
  return el("pre", { class: "mono json", tabindex: "0", dir: "ltr", "aria-label": label }, plain(asText(value)));
}

function shellOf(value) {
  if (typeof value.stdout !== "string" && typeof value.stderr !== "string") return null;
  return [value.stdout, value.stderr].filter(Boolean).join("\n");
}

function partsOf(value) {
  const list = Array.isArray(value) ? value : Array.isArray(value.content) ? value.content : null;
  const told = list?.length && list.every((part) => part && typeof part === "object" && ("text" in part || imageOf(part)));
  return told ? list : null;
}

function imageOf(part) {
  const media = part.media_type ?? part.mimeType ?? part.source?.media_type ?? "";
  const data = part.data ?? part.source?.data;
  return IMAGE.test(media) && typeof data === "string" ? `data:${media};base64,${data.replace(/[^A-Za-z0-9+/=]/g, "")}` : null;
}

function image(part) {
  const source = imageOf(part);
  return source && el("img", { class: "shown", src: source, alt: "An image that the tool showed the model", loading: "lazy" });
}
