// How a session stands, in a word and a colour.

import { el } from "./dom.js";

export const STATES = ["working", "ready", "waiting", "parked", "idle"];
const WORDS = { working: "working", ready: "ready", waiting: "waiting", parked: "waits for you", idle: "idle" };

/** The state of a head: who holds it, whether its turn is open, and what it waits for. */
export function stateOf(head) {
  if (head.worker) return "working";
  if (head.parked) return "parked";
  if (head.turn_open && head.wake_at_s !== null && head.wake_at_s !== undefined && head.wake_at_s > Date.now() / 1000) return "waiting";
  if (head.turn_open || head.waiting_inputs) return /wait/.test(head.status ?? "") ? "waiting" : "ready";
  return "idle";
}

export function stateChip(head) {
  const state = stateOf(head);
  return el("span", { class: `chip is-${state}`, title: head.status || "" }, el("span", { class: "dot", "aria-hidden": "true" }), WORDS[state]);
}

export const wordOf = (state) => WORDS[state];
