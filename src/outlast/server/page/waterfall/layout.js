// Calls to bars: when each of their tries ran, and in which row they stand.

import { axisOf } from "./axis.js";

/**
 * The picture of one turn, ready to be drawn. `now` is the moment up to which open calls reach; `known` keeps the bars of calls that
 * are settled from one layout to the next, since they stay as they are.
 */
export function layoutOf(turn, now, known = new WeakMap()) {
  const ends = new Map(turn.attempts.map((one) => [one.attempt, one.ended ? one.last_s : Infinity]));
  const open = turn.status === "open";
  const until = open ? Math.max(now, turn.opened_s) : Math.max(turn.settled_s, turn.opened_s);
  const newest = turn.attempts.at(-1)?.attempt ?? 0;
  const busy = turn.attempts.flatMap((one) => [[one.began_s, one.began_s], ...(one.ended ? [[one.last_s, one.last_s]] : [])]);
  const rows = [];
  const lanes = [];
  const bars = new Map();
  for (const lane of turn.lanes.values()) {
    const found = [];
    for (const call of lane.calls.values()) {
      if (call.kind === "value") continue;
      const bar = barKept(known, call, lane, { ends, until, newest });
      for (const part of bar.parts) if (call.kind !== "wait") busy.push([part.began, part.ended]);
      found.push(bar);
      bars.set(call.call, bar);
    }
    const first = rows.length;
    pack(found, rows);
    lanes.push({ name: lane.name, begun_by: lane.begun_by, first, rows: rows.length - first });
  }
  return { turn, rows, lanes, bars, until, axis: axisOf(busy, turn.opened_s, until), attempts: turn.attempts, waits: turn.waits };
}

function barKept(known, call, lane, moments) {
  const before = known.get(call);
  if (before) {
    before.kept = call.settled_in < moments.newest;
    return before;
  }
  const bar = barOf(call, lane, moments);
  if (call.status) known.set(call, bar);
  return bar;
}

function barOf(call, lane, { ends, until, newest }) {
  const over = call.status ? call.settled_s : until;
  const parts = call.tries.map((one, at) => {
    const next = call.tries[at + 1]?.began_s ?? Infinity;
    const ended = Math.min(next, ends.get(one.attempt) ?? Infinity, over);
    return { began: one.began_s, ended: Math.max(one.began_s, ended), void: Boolean(one.void), last: at === call.tries.length - 1 };
  });
  return {
    call, lane, parts,
    began: parts[0]?.began ?? call.opened_s,
    ended: Math.max(over, parts.at(-1)?.ended ?? over),
    kept: Boolean(call.status) && call.settled_in < newest,
    row: 0,
  };
}

/** Puts the bars of a lane into as few rows as keep them apart. */
function pack(bars, rows) {
  const first = rows.length;
  rows.push([]);
  if (bars.some((bar, at) => at && bar.began < bars[at - 1].began)) bars.sort((one, other) => one.began - other.began || one.call.call - other.call.call);
  const ends = [-Infinity];
  for (const bar of bars) {
    // A call that begins at the moment when another ends stands behind it, not beside it.
    let at = ends.findIndex((ended) => ended <= bar.began + 1e-6);
    if (at < 0) {
      at = ends.length;
      rows.push([]);
    }
    ends[at] = Math.max(bar.ended, bar.began + 1e-6);
    bar.row = first + at;
    rows[first + at].push(bar);
  }
}

/** The bar of a row at a moment, the nearest within `slack` seconds on both sides. */
export function barAt(row, at, slack) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].began <= at) low = middle + 1;
    else high = middle;
  }
  const near = [row[low - 1], row[low]].filter(Boolean);
  const far = (bar) => Math.max(bar.began - at, at - bar.ended, 0);
  near.sort((one, other) => far(one) - far(other));
  return near.length && far(near[0]) <= slack ? near[0] : null;
}
