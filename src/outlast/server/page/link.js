// How the page is connected: what it says at the top, and the feed of all sessions.

import { ask, v1 } from "./api.js";
import { el, fill } from "./dom.js";
import { cell, endings } from "./store.js";

const WORDS = { loading: "reads…", live: "", lost: "connecting again…", gone: "erased" };
/** What is told of several connections is the worst of them. */
const WORST = ["gone", "lost", "loading", "live"];
/** A connection that is back by then was never missed. */
const MISSED_MS = 1500;
/** Until the next try, after a connection that the browser does not try again by itself. */
export const AGAIN_MS = [500, 1000, 2000, 5000, 10000];

const place = document.getElementById("link");
const away = document.getElementById("away");
const states = new Map();
let timer = 0;

/** Shows the state of a connection while it is watched. Returns what ends that. */
export function watchLink(state) {
  const over = endings();
  const mine = {};
  over.add(() => {
    states.delete(mine);
    draw();
  });
  over.add(state.watch((now) => {
    states.set(mine, now);
    draw();
  }));
  return () => over.end();
}

function draw() {
  const all = [...states.values()];
  const now = WORST.find((one) => all.includes(one)) ?? "live";
  if (place.dataset.state === now) return;
  place.dataset.state = now;
  place.textContent = WORDS[now];
  clearTimeout(timer);
  away.hidden = true;
  if (now === "lost") timer = setTimeout(() => tell(now), MISSED_MS);
  else if (now === "gone") tell(now, all.length === 1);
}

function tell(now, only = true) {
  away.className = `away is-${now}`;
  fill(away, now === "lost"
    ? "The server does not answer. What you see is how things stood; the page goes on by itself when it is back."
    : [only ? "This session has been erased. " : "One of these sessions has been erased. ", el("a", { href: "#/" }, "All sessions")]);
  away.hidden = false;
}

/** Every change of a session: `follow(heard)` hands over each row, and returns what ends it. */
export const sessionsFeed = {
  follow(heard) {
    const over = endings();
    const state = cell("live");
    let [source, again, tries, ended] = [null, 0, 0, false];
    const open = () => {
      source = new EventSource(`${v1}/changes`);
      source.onmessage = (message) => heard(JSON.parse(message.data));
      source.onopen = () => {
        tries = 0;
        state.set("live");
      };
      source.onerror = () => {
        state.set("lost");
        if (source.readyState === EventSource.CLOSED) again = setTimeout(retry, AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]);
      };
    };
    // What a stream was refused for is only told to who asks: a login that is over ends the view.
    const retry = () => ask(`${v1}/whoami`).catch(() => {}).then(() => ended || open());
    over.add(() => {
      ended = true;
      source.close();
      clearTimeout(again);
    });
    over.add(watchLink(state));
    open();
    return () => over.end();
  },
};
