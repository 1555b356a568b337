// What an edit changes, line by line.

import { el } from "./dom.js";
import { plain } from "./words.js";

/** Beyond so many pairs of lines the texts are shown as all gone, and all new. */
const PAIRS = 400_000;
const AROUND = 3;

/** Lines of two texts: `[sign, text]`, the sign one of " ", "-", "+". */
export function changes(before, after) {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n");
  const b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const same = (lines) => lines.map((line) => [" ", line]);
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))];
}

function between(a, b) {
  if (a.length * b.length > PAIRS) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      longest[at] = a[i] === b[j] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  return walked(a, b, longest, width);
}

function walked(a, b, longest, width) {
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([" ", a[i++]]);
      j++;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      lines.push(["-", a[i++]]);
    } else lines.push(["+", b[j++]]);
  }
  return lines;
}

/** Long stretches that stay as they are, left out but for a few lines around each change. */
export function tight(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach(([sign], at) => {
    if (sign !== " ") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const kept = [];
  lines.forEach((line, at) => {
    if (near[at]) kept.push(line);
    else if (kept.at(-1)?.[0] !== "@") kept.push(["@", "…"]);
  });
  return kept;
}

/** The lines of a patch in the unified form, or Codex's. */
export function patchLines(text) {
  return text.replace(/\n$/, "").split("\n").map((line) => {
    if (/^(diff |index |--- |\+\+\+ |@@|\*\*\* )/.test(line)) return ["@", line];
    return "+- ".includes(line[0] ?? " ") ? [line[0] ?? " ", line.slice(1)] : ["@", line];
  });
}

const WORD = { "+": "added", "-": "removed", " ": "", "@": "" };
const CLASS = { "+": "more", "-": "less", " ": "same", "@": "place" };

/** Draws lines. Signs tell what colours tell. */
export function diffOf(lines, label) {
  const rows = lines.map(([sign, text]) =>
    el("span", { class: `line ${CLASS[sign]}` },
      el("span", { class: "sign", "aria-hidden": "true" }, sign === "@" ? " " : sign),
      WORD[sign] && el("span", { class: "unseen" }, `${WORD[sign]}: `), plain(text), "\n"));
  return el("pre", { class: "diff", tabindex: "0", "aria-label": label }, rows);
}

/** The edit that a call makes, if its arguments tell one: `{path, lines}`. */
export function editOf(given) {
  if (!given || typeof given !== "object") return null;
  const path = String(given.file_path ?? given.path ?? given.filePath ?? "");
  const pair = (one) => {
    const before = one.old_string ?? one.oldString ?? one.old_text ?? one.oldText;
    const after = one.new_string ?? one.newString ?? one.new_text ?? one.newText;
    return typeof before === "string" && typeof after === "string" ? changes(before, after) : null;
  };
  if (Array.isArray(given.edits)) {
    const parts = given.edits.map((one) => (one && typeof one === "object" ? pair(one) : null)).filter(Boolean);
    if (parts.length) return { path, lines: parts.flatMap((part, at) => (at ? [["@", "…"], ...part] : part)) };
  }
  const lines = pair(given);
  if (lines) return { path, lines: tight(lines) };
  if (path && typeof given.content === "string") return { path, lines: changes("", given.content) };
  for (const name of ["patch", "input", "diff", "patchText"]) {
    if (typeof given[name] === "string" && /^(\*\*\* Begin Patch|diff |--- )/m.test(given[name])) {
      return { path, lines: patchLines(given[name]) };
    }
  }
  return null;
}
