// The page begins here: who watches, where they are, and what they see.

import { ask, root, signedOut, v1 } from "./api.js";
import { button, el, fill, say } from "./dom.js";
import { hearKeys, showKeys, step } from "./keys.js";
import { sessionsFeed, watchLink } from "./link.js";
import { loginByAddress, loginView } from "./login.js";
import { go, here, listen } from "./router.js";

const content = document.getElementById("content");
const crumbs = document.getElementById("crumbs");
/** Views are read after the first paint: the wanted one at once, the others when there is time. */
const VIEWS = { sessions: () => import("./sessions.js"), session: () => import("./session.js"), panes: () => import("./panes.js"), decide: () => import("./decide.js") };
let view = null;
let at = "";

async function route() {
  const { parts } = here();
  const [what = "sessions", id, ...rest] = parts;
  const place = `${what} ${id ?? ""}`;
  if (view && place === at && id) return view.show?.(rest);
  at = place;
  await leave();
  try {
    view = await shown(what, id, rest);
  } catch (error) {
    if (error.status === 401) return askWho();
    fill(content, el("section", { class: "narrow" }, el("h1", {}, "Not here"), el("p", { class: "why", role: "alert" }, error.message), el("p", {}, el("a", { href: "#/" }, "All sessions"))));
  }
}

async function shown(what, id, rest) {
  tell(what, id);
  switch (named(what, id)) {
    case "panes":
      return (await read("panes")).panesView(content, id.split(",").filter(Boolean).slice(0, 6), watchLink);
    case "session":
      return (await read("session")).sessionView(content, id, rest, watchLink);
    case "sessions":
      return (await read("sessions")).sessionsView(content, sessionsFeed);
    default:
      throw new Error("There is no such place on this page.");
  }
}

async function read(name) {
  try {
    return await VIEWS[name]();
  } catch {
    throw new Error("This view could not be read: the server does not answer, or has become another. Load the page again.");
  }
}

/** Whatever is read once is there when the server is away, or has become a newer one. */
function readAll() {
  const tabs = [import("./waterfall.js"), import("./documents.js"), import("./files.js"), import("./schedules.js")];
  Promise.allSettled([...tabs, ...Object.values(VIEWS).map((one) => one())]);
}

const named = (what, id) => (what === "sessions" ? (id ? "session" : "sessions") : what === "panes" && id ? what : "");

/** While the server is asked who watches, the view is on its way. */
function expect() {
  const { parts: [what = "sessions", id] } = here();
  VIEWS[named(what.split("&")[0], id)]?.().catch(() => {}); // whoever wants it is told
}

function tell(what, id) {
  const name = what === "panes" ? "Side by side" : id ?? "";
  document.title = name ? `${name} · outlast` : "outlast";
  fill(crumbs, id ? el("ol", {}, el("li", {}, el("a", { href: "#/" }, "Sessions"))) : null);
}

async function leave() {
  const old = view;
  view = null;
  await old?.end?.();
}

function askWho(why = "") {
  at = "";
  leave();
  tell("");
  loginView(content, route, why);
}

function chooseScheme() {
  const html = document.documentElement;
  const dark = html.dataset.scheme ? html.dataset.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  html.dataset.scheme = dark ? "light" : "dark";
  // A cookie: the server sends the shell in this scheme, so no script stands before the first paint.
  document.cookie = `outlast-scheme=${html.dataset.scheme}; path=${root}/; max-age=31536000; samesite=strict`;
  say(`The page is ${html.dataset.scheme} now.`);
}

function tab(number) {
  const link = document.querySelectorAll(".tabs a")[number - 1];
  if (!link) return false;
  link.click();
  return true;
}

function prepare() {
  document.getElementById("scheme").addEventListener("click", chooseScheme);
  document.getElementById("keys").addEventListener("click", showKeys);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    content.focus();
  });
  const focus = (selector) => () => {
    const found = document.querySelector(selector);
    found?.focus();
    return Boolean(found);
  };
  const along = (by) => () => step(".sessions a.to", by) || step(".conversation article.row", by);
  hearKeys({
    "?": () => void showKeys(),
    "/": focus("#search"),
    "g s": () => go("#/"),
    "n": () => (document.getElementById("new") ? document.getElementById("new").click() : false),
    "c": focus(".composer textarea"),
    "w": focus(".cards button, .cards textarea"),
    "j": along(1),
    "k": along(-1),
    ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((number) => [String(number), () => tab(number)])),
  });
}

async function begin() {
  prepare();
  // A signed link decides about one call, without any login.
  if (location.pathname.startsWith(`${root}/decide/`)) return (await read("decide")).decideView(content, location.pathname.slice(`${root}/decide/`.length));
  expect();
  try {
    await loginByAddress();
    await ask(`${v1}/whoami`);
  } catch (error) {
    if (error.status !== 401) return failed(error);
    askWho(/token/.test(location.hash) ? error.message : "");
  }
  listen(() => route());
  signedOut.addEventListener("out", () => at && askWho("You are not logged in any more."));
  if (!content.querySelector("form")) await route();
  (globalThis.requestIdleCallback ?? setTimeout)(readAll);
}

function failed(error) {
  fill(content, el("section", { class: "narrow" }, el("p", { class: "why", role: "alert" }, error.message), button("Try again", () => location.reload(), { class: "main" })));
}

begin();
