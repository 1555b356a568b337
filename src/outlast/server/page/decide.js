// A signed link: one decision about one call, without a login. Made for a telephone.

import { ask, v1 } from "./api.js";
import { el, fill } from "./dom.js";
import { plain } from "./words.js";
import { card } from "./waiting.js";

export async function decideView(into, link) {
  document.title = "Decide · outlast";
  const place = el("section", { class: "narrow decide" });
  fill(into, place);
  const base = `${v1}/decide/${link}`;
  try {
    const found = await ask(base);
    const desk = {
      forTurn: false,
      value: async (payload) => (payload?.ref ? `(${payload.size} bytes: log in to read them)` : payload?.json ?? null),
      decide: (body) => ask(base, { body }),
    };
    fill(place, el("h1", {}, "Decide"), el("p", { class: "dim" }, `Session ${plain(found.session)} · ${plain(found.agent ?? "")}`), card(found.awaited, desk));
  } catch (error) {
    fill(place, el("h1", {}, "Nothing to decide"), el("p", { class: "why", role: "alert" }, error.message));
  }
}
