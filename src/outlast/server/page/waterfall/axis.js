// Where a moment stands: time at its own scale while somebody works, and cut short where nobody does. Days of waiting must
// not flatten the minutes of work before and after them.

/** A gap is cut when it is longer than both. */
const LONG_S = 2;
const LONG_PART = 0.08;
/** What a cut takes of the whole width, and what all of them may take together. */
const CUT_PART = 0.045;
const CUTS_PART = 0.4;

/**
 * Units from moments and back. `busy` are `[began, ended]` in which something ran, in any order; `from` and `until` are
 * where the picture begins and ends.
 */
export function axisOf(busy, from, until) {
  const work = merged(busy, from, Math.max(until, from + 0.001));
  const active = Math.max(0.05, work.reduce((sum, [began, ended]) => sum + ended - began, 0));
  const gaps = work.slice(1).map(([began], at) => began - work[at][1]);
  const limit = Math.max(LONG_S, active * LONG_PART);
  const cuts = gaps.filter((gap) => gap > limit).length;
  const cutUnits = active * Math.min(CUT_PART, CUTS_PART / Math.max(1, cuts));
  const parts = [];
  let unit = 0;
  const add = (began, ended, units, cut) => {
    parts.push({ began, ended, from: unit, until: unit + units, cut });
    unit += units;
  };
  work.forEach(([began, ended], at) => {
    if (at) {
      const gap = gaps[at - 1];
      add(work[at - 1][1], began, gap > limit ? cutUnits : gap, gap > limit);
    }
    add(began, ended, Math.max(ended - began, active * 0.002), false);
  });
  return new Axis(parts);
}

/** The intervals joined where they touch, with the two ends of the picture. */
function merged(busy, from, until) {
  const all = [[from, from], ...busy.filter(([began, ended]) => ended >= from && began <= until), [until, until]];
  all.sort((one, other) => one[0] - other[0]);
  const found = [];
  for (const [began, ended] of all) {
    const last = found.at(-1);
    if (last && began <= last[1]) last[1] = Math.max(last[1], ended);
    else found.push([began, ended]);
  }
  return found;
}

class Axis {
  constructor(parts) {
    this.parts = parts;
    this.units = parts.at(-1).until;
  }

  unit(at) {
    const part = this.parts[this.#find((one) => one.ended < at)];
    const share = part.ended > part.began ? (at - part.began) / (part.ended - part.began) : 1;
    return part.from + Math.min(1, Math.max(0, share)) * (part.until - part.from);
  }

  at(unit) {
    const part = this.parts[this.#find((one) => one.until < unit)];
    const share = part.until > part.from ? (unit - part.from) / (part.until - part.from) : 0;
    return part.began + Math.min(1, Math.max(0, share)) * (part.ended - part.began);
  }

  /** The first part for which `before` does not hold, at most the last. */
  #find(before) {
    let [low, high] = [0, this.parts.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (before(this.parts[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
