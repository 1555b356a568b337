// Who watches: a token, given in the address once, or pasted.

import { login } from "./api.js";
import { form } from "./dialog.js";
import { el, fill } from "./dom.js";

/**
 * Takes `token=…` out of the address's `#…`, so that it stands in no history, and logs in with it. What stands before
 * it (`#/panes/a,b&token=…`) is where one wanted to go. False: there is none.
 */
export async function loginByAddress() {
  const given = /^#?(?:.*&)?token=([^&]+)/.exec(location.hash);
  if (!given) return false;
  const rest = location.hash.replace(/&?token=[^&]+/, "");
  history.replaceState(null, "", `${location.pathname}${location.search}${rest === "#" ? "" : rest}`);
  await login(decodeURIComponent(given[1]));
  return true;
}

/** Asks for a token; `then` is called when it was taken. */
export function loginView(into, then, why = "") {
  fill(into, el("section", { class: "narrow" },
    el("h1", {}, "Log in"),
    el("p", { class: "dim" }, "Paste the token that ", el("code", {}, "outlast serve"), " printed when it first started, or open the link that it prints at each start."),
    why && el("p", { class: "why", role: "alert" }, why),
    form([{ name: "token", label: "Token", kind: "password", required: true, autocomplete: "current-password" }], async ({ token }) => {
      await login(token.trim());
      then();
    }, { verb: "Log in" })));
  into.querySelector("input").focus();
}
