// One session: its conversation and everything else that is known of it, under tabs.

import { about, spent } from "./about.js";
import { SessionApi } from "./api.js";
import { conversation } from "./conversation.js";
import { el, fill } from "./dom.js";
import { stateChip } from "./states.js";
import { to } from "./router.js";
import { endings } from "./store.js";
import { dollars, plain } from "./words.js";

const TABS = [
  ["", "Conversation"], ["waterfall", "Waterfall"], ["documents", "Documents"], ["files", "Files"], ["schedules", "Schedules"], ["about", "About"],
];

const LET_GO_MS = 1500;

/** The view of a session. `show(parts)` changes the tab without leaving the session. */
export async function sessionView(into, id, rest, link) {
  const api = new SessionApi(id);
  const about = await api.ask("");
  const over = endings();
  const talk = conversation(api, about.head ?? about);
  over.add(() => talk.end());
  const head = el("div", { class: "session-head" });
  const tabs = el("nav", { class: "tabs", "aria-label": "Of this session" });
  const pane = el("div", { class: "pane", id: "pane" });
  fill(into, el("div", { class: "session" }, head, tabs, pane));
  over.add(link(talk.state));
  const top = { api, about, talk };
  drawHead(head, top);
  // What a commit changed the World's list says at once; that a worker let go, only a moment later.
  let later = 0;
  over.add(talk.events.watch((events) => {
    if (!events?.some(({ kind }) => /^(turn|attempt)\./.test(kind))) return;
    refresh(head, top);
    clearTimeout(later);
    later = setTimeout(() => refresh(head, top), LET_GO_MS);
  }));
  over.add(() => clearTimeout(later));
  let tab = null;
  const show = ([name = "", ...more]) => {
    fill(tabs, TABS.map(([one, label]) => el("a", { href: to("sessions", id, ...(one ? [one] : [])), "aria-current": one === name ? "page" : null }, label)));
    tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    tab?.();
    tab = open(name, more, pane, top);
  };
  show(rest);
  return {
    show,
    focus: talk.focus,
    end() {
      tab?.();
      over.end();
    },
  };
}

/** What stands under a tab, read when it is wanted. Each draws into a place, and returns what ends it. */
const READ = {
  waterfall: async ({ api, talk }) => {
    const { mount } = await import("./waterfall.js");
    return (pane) => mount(pane.appendChild(el("div", { class: "waterfall" })), { session: api.id, api, events: talk.events });
  },
  documents: async ({ api, talk }, [name]) => {
    const { documents } = await import("./documents.js");
    return (pane) => documents(pane, api, talk.events, name);
  },
  files: async ({ api, talk }, more) => {
    const { files } = await import("./files.js");
    return (pane) => files(pane, api, talk.events, more);
  },
  schedules: async ({ api, talk }) => {
    const { schedules } = await import("./schedules.js");
    return (pane) => schedules(pane, api, talk.events);
  },
};

/** Shows a tab in `pane`; returns what ends it. */
function open(name, more, pane, top) {
  pane.className = `pane pane-${name || "conversation"}`;
  if (READ[name]) return mounted(pane, READ[name](top, more));
  if (name === "about") return about(fill(pane), top.api, top.about);
  const { talk } = top;
  fill(pane, talk.node);
  if (name === "calls" && Number(more[0])) talk.begun.then(() => talk.reveal(Number(more[0])));
  return () => {};
}

function mounted(pane, read) {
  fill(pane);
  let end = null;
  let gone = false;
  read.then(
    (draw) => {
      if (!gone) end = draw(pane);
    },
    () => gone || fill(pane, el("p", { class: "why" }, "This could not be loaded. Load the page again.")),
  );
  return () => {
    gone = true;
    end?.();
  };
}

async function refresh(head, top) {
  try {
    top.about = await top.api.ask("");
    drawHead(head, top);
  } catch {
    // What stood there stands; the next event asks again.
  }
}

function drawHead(head, { api, about: known }) {
  const one = known.head ?? known;
  const labels = Object.entries(one.labels ?? {});
  const cost = spent(known).cost_usd;
  fill(head, el("h1", {}, api.id), stateChip(one), el("span", { class: "dim" }, plain(one.agent)),
    cost ? el("span", { class: "dim" }, dollars(cost)) : null,
    labels.map(([name, value]) => el("span", { class: "label" }, `${plain(name)}=${plain(value)}`)));
}
