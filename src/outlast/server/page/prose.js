// A model's words: the little of Markdown that helps to read them, made of elements and texts only. Links stay text.

import { el } from "./dom.js";
import { plain } from "./words.js";

const FENCE = /^\s{0,3}(```+|~~~+)\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)(?:[-*+]|\d{1,3}[.)])\s+(.*)$/;
const NUMBERED = /^\s*\d/;
const INLINE = /(`+)([^`][\s\S]*?)\1|\*\*(\S[\s\S]*?)\*\*/g;
/** Longer than this it is shown as it is: nobody reads it as prose. */
const LONG = 100_000;

/** An element that shows `text`. */
export function prose(text) {
  const whole = el("div", { class: "prose", dir: "auto" });
  if (text.length > LONG) return el("div", { class: "prose", dir: "auto" }, el("p", {}, plain(text)));
  const lines = plain(text).split("\n");
  for (let at = 0; at < lines.length; ) at = block(whole, lines, at);
  return whole;
}

function block(whole, lines, at) {
  const line = lines[at];
  if (!line.trim()) return at + 1;
  const fence = FENCE.exec(line);
  if (fence) return code(whole, lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    // No real heading: what a model said is not part of the page's outline.
    whole.append(el("p", { class: "heading" }, inline(heading[2])));
    return at + 1;
  }
  return ITEM.test(line) ? items(whole, lines, at) : paragraph(whole, lines, at);
}

function code(whole, lines, at, fence) {
  const end = lines.findIndex((line, index) => index > at && line.trim().startsWith(fence[1]));
  const last = end < 0 ? lines.length : end;
  whole.append(el("pre", { class: "code", tabindex: "0" }, lines.slice(at + 1, last).join("\n")));
  return last + 1;
}

function items(whole, lines, at) {
  const list = el(NUMBERED.test(lines[at]) ? "ol" : "ul");
  for (; at < lines.length; at++) {
    const item = ITEM.exec(lines[at]);
    if (item) list.append(el("li", { class: item[1].length > 1 ? "within" : null }, inline(item[2])));
    else if (/^\s+\S/.test(lines[at]) && list.lastChild) list.lastChild.append(" ", ...inline(lines[at].trim()));
    else break;
  }
  whole.append(list);
  return at;
}

function paragraph(whole, lines, at) {
  const from = at;
  while (at < lines.length && lines[at].trim() && (at === from || !starts(lines[at]))) at++;
  whole.append(el("p", {}, inline(lines.slice(from, at).join("\n"))));
  return at;
}

const starts = (line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line);

function inline(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(from, found.index));
    parts.push(found[2] === undefined ? el("strong", {}, found[3]) : el("code", {}, found[2]));
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts.filter((part) => part !== "");
}
