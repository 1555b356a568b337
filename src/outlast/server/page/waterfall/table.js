// The picture as tables: the same for those who do not see the drawing, or would rather read.

import { button, el, fill } from "../dom.js";
import { clock, dollars, figure, plain, plural, took } from "../words.js";
import { attemptText, nameOf, statusOf, tokensOf } from "./words.js";

const ROWS = 100;
const HEADS = ["Call", "Lane", "What", "How", "Began", "Ran", "Tries", "Tokens", "Cost"];

/** Tables of a layout's attempts and calls. `pick(call)` is told which one somebody wants to see in the drawing. */
export function tables(pick) {
  let layout = null;
  let page = 0;
  let open = false;
  const attempts = el("ol", { class: "wf-attempts" });
  const body = el("tbody");
  const told = el("span", { class: "dim", role: "status" });
  const turn = (by) => {
    page += by;
    draw();
  };
  const back = button("Earlier calls", () => turn(-1));
  const on = button("Later calls", () => turn(1));
  const table = el("table", { class: "wf-table" },
    el("caption", { class: "unseen" }, "Calls of the turn, in the order in which they were asked for"),
    el("thead", {}, el("tr", {}, HEADS.map((head) => el("th", { scope: "col" }, head)))), body);
  const scroller = el("div", { class: "wf-scroller", tabindex: "0", role: "group", "aria-label": "Calls of the turn" }, table);
  const pages = el("p", { class: "buttons" }, back, on, told);
  const node = el("details", { class: "wf-tables", on: { toggle: () => ((open = node.open), draw()) } },
    el("summary", {}, "Attempts and calls as a table"), attempts, scroller, pages);

  function draw() {
    if (!layout || !open) return;
    fill(attempts, layout.attempts.map((one, at) => el("li", {}, attemptText(one, at + 1))));
    const bars = [...layout.bars.values()].sort((one, other) => one.call.call - other.call.call);
    const last = Math.max(0, Math.ceil(bars.length / ROWS) - 1);
    page = Math.min(last, Math.max(0, page));
    const shown = bars.slice(page * ROWS, (page + 1) * ROWS);
    fill(body, shown.map((bar) => row(bar, pick)));
    back.disabled = page === 0;
    on.disabled = page === last;
    pages.hidden = !last;
    told.textContent = shown.length ? `Calls ${figure(shown[0].call.call)} to ${figure(shown.at(-1).call.call)} of ${figure(bars.length)}` : "";
  }

  return {
    node,
    show(next) {
      layout = next;
      draw();
    },
  };
}

function row(bar, pick) {
  const { call } = bar;
  const usage = call.usage;
  const number = button(String(call.call), () => pick(call.call), { class: "link-like", "aria-label": `Show call ${call.call} in the drawing` });
  const cells = [
    plain(bar.lane.name), `${nameOf(call)} ${plain(call.about)}`, `${statusOf(bar)}${bar.kept ? ", from the log since" : ""}`, clock(bar.began),
    call.status ? took(call.ran_s) : "", plural(call.tries.length, "try", "tries"), usage ? figure(tokensOf(usage)) : "", usage ? dollars(usage.cost_usd) : "",
  ];
  return el("tr", {}, el("th", { scope: "row" }, number), cells.map((text) => el("td", {}, text)));
}
