// The events of a session: its newest first page, older ones before it, and whatever comes, each once and in order.

import { AGAIN_MS } from "./link.js";
import { cell } from "./store.js";

/** Commits in the first window that is asked for. */
const FIRST = 240;
/** Events that a window before it should hold: as many commits are asked for as held so many in the one behind it. */
const WINDOW = 1600;
const PAGE = 1000;
/** How long a page that is not seen stays connected. */
const UNSEEN_MS = 30_000;

export const seqOf = (cursor) => Number(cursor.split(".")[0]);

/**
 * Follows a session from its newest window on.
 *
 * `heard(events)` gets what comes, a frame's worth at a time; `older(events)` what was before, when it was asked for.
 * `state` is a cell: "loading", "live", "lost" (tries again by itself), "gone" (erased).
 */
export class Follower {
  constructor(session, { heard, older }) {
    this.session = session;
    this.heard = heard;
    this.older = older;
    this.state = cell("loading");
    /** The first commit that is here; 1: everything is. */
    this.from = 1;
    this.cursor = "0.0";
    this.waiting = [];
    this.tries = 0;
    this.loading = null;
    this.ended = false;
    this.seen = () => this.#seen();
    document.addEventListener("visibilitychange", this.seen);
  }

  /** Reads the newest window, then follows. `seq` is the number of the session's newest commit. */
  async begin(seq) {
    this.from = Math.max(1, seq - FIRST + 1);
    this.cursor = `${this.from - 1}.${this.from === 1 ? 0 : BEHIND}`;
    const events = this.#settledOnly(await this.#window(this.from, seq));
    if (this.ended) return;
    this.perCommit = Math.max(1, events.length / Math.max(1, seq - this.from + 1));
    this.heard(events);
    this.#listen();
  }

  /**
   * Pages hold no text of open calls: what is behind the first call that is still open comes from the stream, which
   * has its text too, in its place.
   */
  #settledOnly(events) {
    const open = new Map();
    for (const event of events) {
      const waits = event.facts?.kind === "wait" || event.facts?.kind === "value";
      if (event.kind === "call.opened" && !waits) open.set(event.call, event);
      else if (event.kind === "call.settled") open.delete(event.call);
    }
    const [first] = open.values();
    if (!first) return events;
    this.cursor = first.cursor;
    return events.slice(0, events.indexOf(first) + 1);
  }

  get whole() {
    return this.from <= 1;
  }

  /** Reads the window before what is here. Asked twice at once, it reads once. */
  earlier() {
    if (this.whole || this.ended) return Promise.resolve(false);
    this.loading ??= this.#earlier().finally(() => (this.loading = null));
    return this.loading;
  }

  async #earlier() {
    const from = Math.max(1, this.from - Math.ceil(WINDOW / this.perCommit));
    const events = await this.#window(from, this.from - 1, false);
    if (this.ended) return false;
    this.perCommit = Math.max(1, events.length / (this.from - from));
    this.from = from;
    this.older(events);
    return true;
  }

  /** The events of the commits from `from` to `last`. */
  async #window(from, last, moves = true) {
    const found = [];
    let after = from === 1 ? "0.0" : `${from - 1}.${BEHIND}`;
    for (;;) {
      const page = await this.session.ask("/events", { query: { after, limit: PAGE } });
      for (const event of page.events) {
        if (seqOf(event.cursor) > last && !moves) return found;
        found.push(event);
      }
      after = page.next ?? page.events.at(-1)?.cursor ?? after;
      if (moves && after) this.cursor = after;
      if (page.events.length < PAGE || seqOf(after) > last) return found;
    }
  }

  #listen() {
    if (this.away || this.ended) return;
    this.source = new EventSource(`${this.session.base}/events?after=${this.cursor}`);
    this.source.onopen = () => {
      this.tries = 0;
      this.state.set("live");
    };
    this.source.onmessage = (message) => this.#came(message);
    this.source.addEventListener("failed", (message) => this.#failed(message));
    this.source.onerror = () => {
      // The browser tries again by itself, with the last id it has, unless it gave up.
      this.state.set("lost");
      if (this.source.readyState === EventSource.CLOSED) this.#again();
    };
  }

  /** A browser opens six connections to a host, tabs in the background included: those that nobody sees give theirs back. */
  #seen() {
    clearTimeout(this.leaves);
    if (document.hidden) {
      this.leaves = setTimeout(() => {
        this.source?.close();
        this.away = true;
      }, UNSEEN_MS);
    } else if (this.away) {
      this.away = false;
      this.#listen();
    }
  }

  #again() {
    if (this.ended) return;
    const wait = AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)];
    this.timer = setTimeout(() => this.#retry(), wait);
  }

  /** What a stream was refused for is only told to who asks: the session may be erased, or the login over. */
  async #retry() {
    try {
      await this.session.ask("");
    } catch (error) {
      if (error.status === 404 || error.status === 410) return this.state.set("gone");
      if (error.status !== 401) return this.#again();
      return;
    }
    this.#listen();
  }

  #came(message) {
    const event = JSON.parse(message.data);
    this.cursor = event.cursor;
    this.waiting.push(event);
    this.asked ??= requestAnimationFrame(() => this.#hand());
    // A page in the background has no frames; it is handed what came all the same, before that grows large.
    this.late ??= setTimeout(() => this.#hand(), 300);
  }

  #failed(message) {
    const said = JSON.parse(message.data);
    this.state.set(said.status === 404 ? "gone" : "lost");
    this.source.close();
    if (said.status !== 404) this.#again();
  }

  #hand() {
    cancelAnimationFrame(this.asked);
    clearTimeout(this.late);
    this.asked = this.late = null;
    const events = this.waiting;
    this.waiting = [];
    if (events.length && !this.ended) this.heard(events);
  }

  end() {
    this.ended = true;
    this.source?.close();
    clearTimeout(this.timer);
    clearTimeout(this.leaves);
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.late);
    cancelAnimationFrame(this.asked);
  }
}

/** No commit holds so many events and deltas. */
const BEHIND = 2 ** 40;
