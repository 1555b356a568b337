// A session's conversation, live: its rows, what it waits for, and where somebody says something.

import { composer } from "./composer.js";
import { formDialog } from "./dialog.js";
import { button, el, fill, say } from "./dom.js";
import { Follower } from "./events.js";
import { LongList } from "./list.js";
import { rowPart } from "./rows.js";
import { go, to } from "./router.js";
import { cell, endings } from "./store.js";
import { Story } from "./story.js";
import { card, leave } from "./waiting.js";

/** Events behind which what the session waits for may be another. */
const TURNING = new Set(["turn.opened", "turn.parked", "turn.released", "turn.settled", "turn.continued", "call.decided", "call.opened", "call.settled", "attempt.opened", "attempt.ended"]);

/**
 * The conversation of `api`'s session. `head` is how it stands; `compact` is for panes beside each other.
 * Returns `{node, events, turn, end()}`; `events` is what other views stand on.
 */
export function conversation(api, head, { compact = false } = {}) {
  const over = endings();
  const story = new Story();
  const turn = cell(null);
  const heard = new Set();
  const unfolded = new Set();
  const worded = new Set();
  const page = {
    api, unfolded,
    keep: (key, open) => (open ? unfolded.add(key) : unfolded.delete(key)),
    hasWords: (number) => worded.has(number),
    fork: compact ? null : (row) => fork(api, row),
  };
  const list = new LongList({ draw: (row) => rowPart(row, page), atTop: () => earlier(), label: `Conversation of ${api.id}` });
  const cards = el("div", { class: "cards", role: "group", "aria-label": "Waits for you" });
  const words = composer(api);
  const top = el("p", { class: "note quiet beginning", role: "status" });
  const newest = button("Newest ↓", () => list.toEnd(), { class: "newest", "aria-label": "To the newest" });
  const nothing = el("p", { class: "nothing" }, el("strong", {}, "Nothing has been said yet."), "Write below what should be done. It is kept before anything is done with it; a worker that has this agent takes it up.");
  const stage = el("div", { class: "stage" }, list.node, newest);
  const node = el("div", { class: `conversation${compact ? " compact" : ""}` }, top, stage, cards, words.node);
  list.node.addEventListener("scroll", () => newest.classList.toggle("wanted", !list.follows), { passive: true });

  const show = (changed) => {
    list.show(story.rows, changed);
    if (story.rows.length || !follower.whole) nothing.remove();
    else stage.append(nothing);
  };
  const take = (events) => {
    for (const event of events) if (event.kind === "call.text" || (event.kind === "call.settled" && event.usage)) worded.add(event.turn);
  };
  const follower = new Follower(api, {
    heard(events) {
      take(events);
      story.add(events);
      show(story.taken());
      turn.set(story.turn);
      if (events.some(({ kind }) => TURNING.has(kind))) waits.ask();
      for (const told of heard) told(events);
    },
    older(events) {
      take(events);
      story.addOlder(events);
      show(story.taken());
      turn.set(story.turn);
      for (const told of heard) told(null);
    },
  });
  const earlier = async () => {
    if (follower.whole || follower.state.get() === "loading") return;
    top.textContent = "Reads what was before…";
    try {
      await follower.earlier();
    } catch (error) {
      top.textContent = error.message;
      return;
    }
    top.textContent = "";
  };
  const waits = waitsFor(api, cards, turn);
  over.add(turn.watch((open) => words.update(open ?? (head.turn_open && !follower.ended && follower.state.get() === "loading" ? { number: "" } : null))));
  over.add(follower.state.watch((now) => (words.node.hidden = now === "gone")));
  over.add(() => follower.end());
  over.add(() => list.end());
  over.add(() => waits.end());
  const begun = follower.begin(head.seq).catch((error) => (top.textContent = error.message));
  waits.ask();
  return {
    node, turn, state: follower.state, begun,
    focus: words.focus,
    reveal: (call) => reveal(call, { list, story, follower }),
    events: {
      all: () => story.events,
      /** `told(events)` with what came; null when older ones were put before the others. Returns what ends it. */
      watch(told) {
        heard.add(told);
        return () => heard.delete(told);
      },
      earlier: () => follower.earlier(),
      whole: () => follower.whole,
    },
    end: () => over.end(),
  };
}

/** Keeps `cards` as what the session waits for. Asked often, it asks the server once at a time. */
function waitsFor(api, cards, turn) {
  const shown = new Map();
  let [busy, again, ended] = [false, false, false];
  const desk = {
    value: (payload) => api.value(payload),
    decide: (body) => api.ask("/decisions", { body }),
    retry: () => api.ask("/retries", { body: {} }),
    cancel: () => api.ask("/cancels", { body: {} }),
  };
  const draw = (awaits) => {
    const wanted = awaits.filter((one) => one.what !== "time" || one.until_s);
    const keys = new Set(wanted.map(keyOf));
    for (const [key, node] of shown) {
      if (keys.has(key)) continue;
      shown.delete(key);
      leave(node);
    }
    for (const one of wanted) {
      if (shown.has(keyOf(one))) continue;
      const node = card(one, desk);
      shown.set(keyOf(one), node);
      cards.append(node);
      if (one.what === "decision" || one.what === "answer" || one.what === "person") say(`The session waits for you: ${one.text}`);
    }
  };
  const ask = async () => {
    if (busy) return void (again = true);
    busy = true;
    try {
      const found = await api.ask("/awaited");
      if (!ended) draw(found.awaits ?? found.awaited ?? []);
    } catch {
      // The cards stay as they were; the next event asks again.
    }
    busy = false;
    if (again && !ended) {
      again = false;
      ask();
    }
  };
  return { ask, end: () => (ended = true) };
}

const keyOf = (one) => `${one.what} ${one.call} ${one.ask} ${one.signal} ${one.child} ${one.why}`;

/** Brings a call into view, older events read until it is there. */
async function reveal(call, { list, story, follower }) {
  while (!story.calls.has(call) && !follower.whole) {
    if (!(await follower.earlier())) break;
  }
  requestAnimationFrame(() => {
    if (list.reveal(`c${call}`)) list.drawn.get(`c${call}`)?.node.focus({ preventScroll: true });
  });
}

async function fork(api, row) {
  const at = Number(row.view.settled.cursor.split(".")[0]);
  const made = await formDialog("Fork the session", [
    { name: "session", label: "Name of the fork", value: `${api.id}-fork`, required: true, pattern: "[a-z0-9][a-z0-9._\\-]{0,127}", hint: `It has the past of ${api.id} up to commit ${at}, call ${row.call} included, and goes on by itself.` },
  ], async ({ session }) => {
    await api.ask("/forks", { body: { session, at } });
    return session;
  }, { verb: "Fork" });
  if (made) go(to("sessions", made));
}
