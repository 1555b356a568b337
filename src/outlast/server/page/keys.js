// What the keyboard does, and the list of it.

import { dialog } from "./dialog.js";
import { el } from "./dom.js";

const LIST = [
  ["?", "This list"],
  ["/", "Search sessions"],
  ["g s", "All sessions"],
  ["n", "A new session, from the list"],
  ["c", "Write to the session"],
  ["1 … 6", "The tabs of a session"],
  ["j / k", "The next, the one before: a session, a row of the conversation"],
  ["Enter", "Open it"],
  ["w", "What the session waits for"],
  ["Esc", "Leave a field or a dialog"],
];

export function showKeys() {
  return dialog("Keyboard", () => el("dl", { class: "keys" }, LIST.map(([keys, what]) => [
    el("dt", {}, keys.split(" ").map((key) => (key === "/" && keys !== "/") || key === "…" ? ` ${key} ` : el("kbd", {}, key))), el("dd", {}, what),
  ])));
}

const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");

/** Hears keys. `acts` are by key: a function, or one that says with `false` that the key was not for it. */
export function hearKeys(acts) {
  let before = "";
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && typing(event.target)) return event.target.blur();
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const two = `${before} ${event.key}`;
    before = event.key;
    const act = acts[two] ?? acts[event.key];
    if (act && act(event) !== false) event.preventDefault();
  });
}

/** Moves the focus among the elements that `selector` finds, in the order of the document. */
export function step(selector, by) {
  const all = [...document.querySelectorAll(selector)];
  if (!all.length) return false;
  const at = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}
