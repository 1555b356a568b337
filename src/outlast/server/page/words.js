// Words and figures for people. What a model or a tool said comes through `plain` before it is shown.

const WHY_NOT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
// eslint-disable-next-line no-control-regex
const COLOURS = /\u001b\[[0-9;:]*m/g;

/** Text in which nothing is hidden: what moves a cursor, turns the direction or has no width is shown as a sign. */
export function plain(text) {
  return text.replaceAll("\r\n", "\n").replace(WHY_NOT, sign);
}

/** Output of a terminal: its colours are left out, all else that steers one is shown. */
export function terminal(text) {
  return plain(text.replace(COLOURS, ""));
}

function sign(found) {
  const code = found.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

/** One line of at most `width` characters. */
export function short(text, width = 80) {
  const line = plain(String(text).slice(0, width * 8).split(/\s+/).join(" ").trim());
  const letters = [...line];
  return letters.length <= width ? line : `${letters.slice(0, width - 1).join("")}…`;
}

/** A result as the model reads it: text as it is, anything else as JSON. */
export function asText(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 2) ?? "";
}

export function age(seconds) {
  const s = Math.max(0, seconds);
  for (const [limit, unit, size] of [[90, "s", 1], [5400, "min", 60], [129600, "h", 3600]]) {
    if (s < limit) return `${Math.round(s / size)} ${unit}`;
  }
  return `${Math.round(s / 86400)} d`;
}

export function took(seconds) {
  if (seconds < 0.0005) return "";
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 90 ? `${seconds.toFixed(1)} s` : age(seconds);
}

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
export const moment = (atS) => (atS ? MOMENT.format(new Date(atS * 1000)) : "");
export const clock = (atS) => (atS ? CLOCK.format(new Date(atS * 1000)) : "");

const FIGURE = new Intl.NumberFormat("en");
export const figure = (number) => FIGURE.format(number ?? 0);

export function dollars(amount) {
  if (!amount) return "$0";
  return amount < 0.01 ? `$${amount.toFixed(4)}` : `$${amount.toFixed(2)}`;
}

export function bytes(count) {
  if (count < 1000) return `${count} bytes`;
  return count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

export function plural(count, one, many = `${one}s`) {
  return `${figure(count)} ${count === 1 ? one : many}`;
}

/** `2,104 → 311 tokens · $0.01`; empty where nothing was reported. */
export function usageText(usage) {
  if (!usage) return "";
  const read = (usage.input_tokens ?? 0) + (usage.cache_read_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  const said = usage.output_tokens ?? 0;
  if (!read && !said) return "";
  return `${figure(read)} → ${figure(said)} tokens · ${dollars(usage.cost_usd)}`;
}
