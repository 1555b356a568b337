// Sessions side by side, all live: to compare what becomes of the same work.

import { SessionApi } from "./api.js";
import { conversation } from "./conversation.js";
import { el, fill } from "./dom.js";
import { stateChip } from "./states.js";
import { to } from "./router.js";
import { endings } from "./store.js";
import { plain } from "./words.js";

export async function panesView(into, ids, link) {
  const over = endings();
  const columns = el("div", { class: "panes" });
  columns.style.setProperty("--columns", ids.length);
  fill(into, el("h1", { class: "unseen" }, "Sessions side by side"), columns);
  for (const id of ids) {
    const column = el("section", { class: "column", "aria-label": `Session ${id}` }, el("p", { class: "dim" }, "reads…"));
    columns.append(column);
    over.add(pane(column, id, link));
  }
  return { end: () => over.end() };
}

function pane(column, id, link) {
  const api = new SessionApi(id);
  const over = endings();
  let ended = false;
  const head = el("header", {});
  const draw = async () => {
    const known = await api.ask("");
    const one = known.head;
    fill(head, el("h2", {}, el("a", { href: to("sessions", id) }, id)), stateChip(one), el("span", { class: "dim" }, plain(one.agent)));
    return known;
  };
  draw().then((known) => {
    if (ended) return;
    const talk = conversation(api, known.head, { compact: true });
    over.add(() => talk.end());
    over.add(link(talk.state));
    over.add(talk.events.watch((events) => events?.some(({ kind }) => /^(turn|attempt)\./.test(kind)) && draw().catch(() => {})));
    fill(column, head, talk.node);
  }).catch((error) => fill(column, el("h2", {}, id), el("p", { class: "why" }, error.message)));
  return () => {
    ended = true;
    over.end();
  };
}
