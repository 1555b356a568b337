// Draws the picture on a canvas: only what is in view, and of bars that share a pixel one.

import { clock, figure, plain } from "../words.js";
import { nameOf, span } from "./words.js";

export const ROW = 28;
export const HEAD = 50;
const BAR = 19;
const LANE_GAP = 6;
const FONT = "11px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif";

/** Where the rows of each lane stand, from the top of all. */
export function topsOf(layout) {
  const tops = [];
  let top = 0;
  for (const lane of layout.lanes) {
    for (let row = 0; row < lane.rows; row++) tops.push(top + row * ROW);
    top += lane.rows * ROW + LANE_GAP;
  }
  return { tops, height: top };
}

/** Unit to pixel: `view` is `{from, until, left, width}`. */
export const xOf = (view, unit) => view.left + ((unit - view.from) / (view.until - view.from)) * view.width;

export function draw(ctx, scene) {
  const { view, colours } = scene;
  ctx.save();
  ctx.scale(view.ratio, view.ratio);
  ctx.clearRect(0, 0, view.left + view.width, view.height);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  ctx.save();
  ctx.beginPath();
  ctx.rect(view.left, 0, view.width, view.height);
  ctx.clip();
  bands(ctx, scene);
  cuts(ctx, scene);
  ctx.save();
  ctx.beginPath();
  ctx.rect(view.left, HEAD, view.width, view.height - HEAD);
  ctx.clip();
  bars(ctx, scene);
  ctx.restore();
  edges(ctx, scene);
  ctx.restore();
  gutter(ctx, scene);
  ctx.strokeStyle = colours.line;
  line(ctx, 0, HEAD - 0.5, view.left + view.width, HEAD - 0.5);
  ctx.restore();
}

function line(ctx, x, y, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}

/** `text` if there is room for it, cut where it must be. */
function write(ctx, text, x, y, room) {
  if (room < 18) return;
  let shown = text;
  if (ctx.measureText(shown).width > room) {
    const letters = [...text];
    let keep = Math.floor((letters.length * room) / ctx.measureText(text).width);
    while (keep > 0 && ctx.measureText(`${letters.slice(0, keep).join("")}…`).width > room) keep -= 1;
    if (keep < 2) return;
    shown = `${letters.slice(0, keep).join("")}…`;
  }
  ctx.fillText(shown, x, y);
}

/** From where to where an attempt had the turn, in pixels. */
function reach(scene, at) {
  const { layout, view } = scene;
  const one = layout.attempts[at];
  const ended = one.ended ? one.last_s : layout.until;
  return [xOf(view, layout.axis.unit(one.began_s)), xOf(view, layout.axis.unit(ended))];
}

function bands(ctx, scene) {
  const { layout, view, colours } = scene;
  const right = view.left + view.width;
  layout.attempts.forEach((one, at) => {
    const [x, end] = reach(scene, at);
    if (end < view.left || x > right) return;
    ctx.fillStyle = at % 2 ? colours.bandOther : colours.band;
    ctx.fillRect(x, 0, Math.max(1, end - x), view.height);
    const next = Math.min(at + 1 < layout.attempts.length ? reach(scene, at + 1)[0] : right, cutBehind(scene, x));
    // Beside the sign of the take-over.
    const from = Math.max(x, view.left) + (at && x >= view.left ? 13 : 6);
    ctx.fillStyle = colours.ink;
    write(ctx, `${at + 1} · ${plain(one.worker)}`, from, 12, Math.min(next, right) - from - 4);
    const served = one.saved.model_calls + one.saved.tool_calls;
    ctx.fillStyle = colours.dim;
    if (one.saved.takeovers) write(ctx, `↻ ${figure(served)} from the log`, from, 28, Math.min(next, right) - from - 4);
  });
}

/** Where the next cut begins, which lies over what is written. */
function cutBehind({ layout, view }, x) {
  const cut = layout.axis.parts.find((part) => part.cut && xOf(view, part.from) > x);
  return cut ? xOf(view, cut.from) : Infinity;
}

/** Where time is cut short: a torn strip that says how long it was, and why nobody worked. */
function cuts(ctx, scene) {
  const { layout, view, colours } = scene;
  const written = { until: -Infinity };
  for (const part of layout.axis.parts) {
    const [x, end] = [xOf(view, part.from), xOf(view, part.until)];
    if (end < view.left || x > view.left + view.width) continue;
    if (!part.cut) {
      ticks(ctx, scene, part, { x, end, written });
      continue;
    }
    const waits = layout.waits.some((wait) => wait.began_s < part.ended && (wait.ended_s || Infinity) > part.began);
    const unnoticed = layout.attempts.some((one) => one.ended === "lost" && one.last_s < part.ended && one.last_s + one.unnoticed_s > part.began);
    ctx.fillStyle = waits ? colours.waitSoft : unnoticed ? colours.lostSoft : colours.sunk;
    ctx.fillRect(x, 0, end - x, view.height);
    ctx.strokeStyle = colours.strong;
    for (const edge of [x, end]) zigzag(ctx, edge, view.height);
    ctx.fillStyle = waits ? colours.wait : unnoticed ? colours.lost : colours.dim;
    ctx.textAlign = "center";
    write(ctx, span(part.ended - part.began), (x + end) / 2, HEAD + 10, end - x - 4);
    write(ctx, waits ? "‖" : unnoticed ? "✕" : "…", (x + end) / 2, 11, end - x);
    ctx.textAlign = "left";
  }
}

function zigzag(ctx, x, height) {
  ctx.beginPath();
  for (let y = 0; y <= height; y += 6) ctx.lineTo(x + ((y / 6) % 2 ? 2 : -2), y);
  ctx.stroke();
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

function ticks(ctx, scene, part, { x, end, written }) {
  const { view, colours } = scene;
  const seconds = part.ended - part.began;
  if (end - x < 70 || seconds <= 0) return;
  const perPixel = seconds / (end - x);
  const step = STEPS.find((one) => one / perPixel >= 90) ?? 86400;
  const [left, right] = [Math.max(x, view.left), Math.min(end, view.left + view.width)];
  const first = Math.ceil((part.began + (left - x) * perPixel) / step) * step;
  ctx.strokeStyle = colours.line;
  ctx.fillStyle = colours.dim;
  for (let at = first; ; at += step) {
    const place = x + (at - part.began) / perPixel;
    if (place > right) return;
    line(ctx, place, HEAD - 8, place, view.height);
    const text = step < 1 ? (at % 60).toFixed(1) : clock(at);
    const until = place + 6 + ctx.measureText(text).width;
    // Half a moment tells nothing.
    if (place < written.until || until > Math.min(view.left + view.width, cutBehind(scene, place))) continue;
    written.until = until;
    ctx.fillText(text, place + 3, 42);
  }
}

/** The end of each attempt, and where another went on. */
function edges(ctx, scene) {
  const { view, colours, layout } = scene;
  layout.attempts.forEach((one, at) => {
    const [x, end] = reach(scene, at);
    if (at) {
      ctx.strokeStyle = ctx.fillStyle = colours.accent;
      ctx.lineWidth = 2;
      line(ctx, x, 0, x, view.height);
      triangle(ctx, x, 4);
    }
    if (one.ended && one.ended !== "settled") {
      ctx.strokeStyle = ctx.fillStyle = one.ended === "lost" || one.ended === "failed" ? colours.lost : colours.wait;
      ctx.lineWidth = 2;
      ctx.setLineDash([4, 3]);
      line(ctx, end, 0, end, view.height);
      ctx.setLineDash([]);
      ending(ctx, one.ended, end, HEAD - 10);
    }
    ctx.lineWidth = 1;
  });
}

function triangle(ctx, x, y) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + 8, y + 5);
  ctx.lineTo(x, y + 10);
  ctx.fill();
}

/** ✕ lost or failed, ‖ waits or is parked, ⇥ handed over. */
function ending(ctx, how, x, y) {
  ctx.lineWidth = 2.5;
  if (how === "lost" || how === "failed") {
    line(ctx, x - 5, y - 5, x + 5, y + 5);
    line(ctx, x - 5, y + 5, x + 5, y - 5);
  } else if (how === "handed_over") {
    line(ctx, x - 9, y, x, y);
    line(ctx, x - 4, y - 4, x, y);
    line(ctx, x - 4, y + 4, x, y);
  } else {
    line(ctx, x - 5, y - 5, x - 5, y + 5);
    line(ctx, x - 1, y - 5, x - 1, y + 5);
  }
}

function bars(ctx, scene) {
  const { layout, view, tops, scroll } = scene;
  const [began, ended] = [layout.axis.at(view.from), layout.axis.at(view.until)];
  layout.rows.forEach((row, at) => {
    const y = HEAD + tops[at] - scroll;
    if (y < HEAD - ROW || y > view.height) return;
    let drawn = -Infinity;
    let signed = -Infinity;
    for (let next = firstIn(row, began); next < row.length && row[next].began <= ended; next++) {
      const bar = row[next];
      const end = xOf(view, layout.axis.unit(bar.ended));
      const telling = (bar.call.status && bar.call.status !== "ok") || bar === scene.chosen || bar === scene.hovered || !bar.call.status;
      if (end < drawn + 1 && !telling) continue;
      // Signs that would lie upon one another become strokes.
      const sparse = end > signed + 14;
      one(ctx, scene, bar, y + (ROW - BAR) / 2, sparse);
      if (sparse && MARKS[bar.call.status]) signed = end;
      drawn = end;
    }
  });
}

function firstIn(row, began) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].ended < began) low = middle + 1;
    else high = middle;
  }
  return low;
}

function one(ctx, scene, bar, y, sparse) {
  const { layout, view, colours } = scene;
  const { call } = bar;
  const place = (at) => xOf(view, layout.axis.unit(at));
  const paint = colourOf(call, colours);
  if (call.kind === "wait") waitBar(ctx, place(bar.began), place(bar.ended), y, paint);
  else if (!bar.parts.length) grantedBar(ctx, place(bar.began), place(bar.ended), y, paint);
  else {
    for (const part of bar.parts) {
      const lost = part.void || !part.last;
      tryBar(ctx, scene, { x: place(part.began), end: place(part.ended), y, paint, lost, kept: bar.kept && !lost, open: part.last && !call.status, tool: call.kind !== "model" });
    }
    const last = bar.parts.at(-1);
    const [x, end] = [place(last.began), place(last.ended)];
    label(ctx, scene, bar, { x: Math.max(x, view.left), end: Math.min(end, view.left + view.width), y });
  }
  mark(ctx, call, place(bar.ended), y, colours, sparse);
  if (bar === scene.chosen || bar === scene.hovered) {
    ctx.strokeStyle = bar === scene.chosen ? colours.accent : colours.strong;
    ctx.lineWidth = 2;
    ctx.strokeRect(place(bar.began) - 2, y - 2, Math.max(3, place(bar.ended) - place(bar.began)) + 4, BAR + 4);
    ctx.lineWidth = 1;
  }
}

/** What the call is, where there is room; on a ground of its own where lines would cross it. */
function label(ctx, { colours }, { call, kept }, { x, end, y }) {
  const room = end - x - (call.status === "ok" ? 8 : 20);
  if (room < 26) return;
  const text = call.kind === "model" ? nameOf(call) : call.about ? `${nameOf(call)}  ${plain(call.about)}` : nameOf(call);
  if (kept) {
    ctx.globalAlpha = 0.82;
    ctx.fillStyle = colours.sheet;
    ctx.fillRect(x + 2, y + 3, Math.min(room + 3, ctx.measureText(text).width + 4), BAR - 6);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = kept ? colours.ink : colours.on;
  write(ctx, text, x + 4, y + BAR / 2 + 0.5, room);
}

function colourOf(call, colours) {
  if (call.kind === "wait") return colours.wait;
  if (call.status === "error") return colours.lost;
  if (call.status === "in_doubt" || call.status === "interrupted") return colours.wait;
  if (call.status === "cancelled") return colours.dim;
  return call.kind === "model" ? colours.model : colours.tool;
}

/** A try: full where it counts, hatched where it came from the log since, an outline torn at its end where it was lost. */
function tryBar(ctx, { hatch }, { x, end, y, paint, lost, kept, open, tool }) {
  const width = Math.max(1.5, end - x);
  const [top, height] = tool ? [y + 3, BAR - 6] : [y, BAR];
  ctx.fillStyle = ctx.strokeStyle = paint;
  if (lost) {
    ctx.setLineDash([3, 2]);
    ctx.strokeRect(x + 0.5, top + 0.5, width, height - 1);
    ctx.setLineDash([]);
    return;
  }
  if (kept && width > 3) {
    ctx.fillStyle = hatch(paint);
    ctx.fillRect(x, top, width, height);
    ctx.strokeRect(x + 0.5, top + 0.5, Math.max(1, width - 1), height - 1);
    return;
  }
  ctx.fillRect(x, top, width, height);
  if (!open) return;
  // Its end is not known yet: an arrow, not an edge.
  ctx.beginPath();
  ctx.moveTo(x + width, top);
  ctx.lineTo(x + width + height / 2, top + height / 2);
  ctx.lineTo(x + width, top + height);
  ctx.fill();
}

function waitBar(ctx, x, end, y, paint) {
  ctx.strokeStyle = paint;
  ctx.lineWidth = 2;
  line(ctx, x, y + BAR / 2, end, y + BAR / 2);
  line(ctx, x, y + 2, x, y + BAR - 2);
  line(ctx, end, y + 2, end, y + BAR - 2);
  ctx.lineWidth = 1;
}

function grantedBar(ctx, x, end, y, paint) {
  ctx.strokeStyle = paint;
  ctx.setLineDash([1.5, 3]);
  ctx.strokeRect(x + 0.5, y + 3.5, Math.max(2, end - x), BAR - 7);
  ctx.setLineDash([]);
}

const MARKS = { error: "✗", in_doubt: "?", interrupted: "↷", cancelled: "○" };

/** A sign at the end of what did not end well: colour alone would not tell it. */
function mark(ctx, call, end, y, colours, sparse) {
  const sign = MARKS[call.status];
  if (!sign) return;
  if (!sparse) {
    ctx.fillStyle = colourOf(call, colours);
    ctx.fillRect(end - 1, y - 3, 2, BAR + 6);
    return;
  }
  ctx.fillStyle = colours.sheet;
  ctx.strokeStyle = colourOf(call, colours);
  ctx.beginPath();
  ctx.arc(end, y + BAR / 2, 6.5, 0, Math.PI * 2);
  ctx.fill();
  ctx.stroke();
  ctx.fillStyle = colourOf(call, colours);
  ctx.textAlign = "center";
  ctx.fillText(sign, end, y + BAR / 2 + 0.5);
  ctx.textAlign = "left";
}

function gutter(ctx, { layout, view, colours, tops, scroll }) {
  ctx.fillStyle = colours.sheet;
  ctx.fillRect(0, 0, view.left, view.height);
  ctx.strokeStyle = colours.line;
  line(ctx, view.left - 0.5, 0, view.left - 0.5, view.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD, view.left + view.width, view.height - HEAD);
  ctx.clip();
  for (const lane of layout.lanes) {
    const y = HEAD + tops[lane.first] - scroll;
    ctx.fillStyle = colours.ink;
    write(ctx, plain(lane.name), 8, y + ROW / 2, view.left - 14);
    const under = y + lane.rows * ROW + LANE_GAP / 2;
    line(ctx, 0, under, view.left + view.width, under);
  }
  ctx.restore();
  ctx.fillStyle = colours.dim;
  write(ctx, "attempt", 8, 12, view.left - 14);
  write(ctx, "lane", 8, 42, view.left - 14);
}
