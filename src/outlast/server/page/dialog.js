// Dialogs: the browser's own, which keeps the keyboard inside and gives the focus back.

import { button, el } from "./dom.js";

/**
 * Opens a dialog. `build(close)` gives its content; whoever closes it may hand over a value, which is what this resolves
 * to (null if it was left).
 */
export function dialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    let result = null;
    const close = (value = null) => {
      result = value;
      box.close();
    };
    const name = `dialog-${Math.random().toString(36).slice(2)}`;
    const box = el("dialog", { class: wide ? "wide" : null, "aria-labelledby": name },
      el("header", {}, el("h2", { id: name }, title), button("✕", () => close(), { class: "quiet", "aria-label": "Close" })),
      build(close));
    box.addEventListener("close", () => {
      box.remove();
      resolve(result);
    });
    box.addEventListener("click", (event) => event.target === box && close());
    document.body.append(box);
    box.showModal();
  });
}

/** Fields in a form. `send(values)` may throw: its text is shown, and the form stays. Resolves as `dialog`. */
export function formDialog(title, fields, send, { verb = "Save", danger = false, about = null } = {}) {
  return dialog(title, (close) => form(fields, async (values) => close((await send(values)) ?? true), { verb, danger, about }));
}

/** A form of fields `{name, label, value, kind, hint, required}`; kind is text, area or choice (with `choices`); `known` are texts that it offers. */
export function form(fields, send, { verb = "Save", danger = false, about = null } = {}) {
  const wrong = el("p", { class: "why", role: "alert" });
  const submit = el("button", { type: "submit", class: danger ? "danger" : "main" }, verb);
  const made = el("form", {}, about, fields.map((one, at) => field({ autofocus: at === 0, ...one })), wrong, el("div", { class: "buttons" }, submit));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    submit.disabled = true;
    try {
      await send(Object.fromEntries(new FormData(made)));
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      submit.disabled = false;
    }
  });
  return made;
}

function field({ name, label, value = "", kind = "text", hint = "", required = false, choices = [], known = [], ...rest }) {
  const id = `field-${name}-${Math.random().toString(36).slice(2)}`;
  const given = { id, name, required, "aria-describedby": hint ? `${id}-hint` : null, list: known.length ? `${id}-known` : null, ...rest };
  const input = kind === "area" ? el("textarea", { rows: 5, ...given }, value)
    : kind === "choice" ? el("select", given, choices.map((one) => el("option", { value: one, selected: one === value }, one)))
    : el("input", { type: kind, value, autocomplete: "off", spellcheck: "false", ...given });
  return el("div", { class: "field" }, el("label", { for: id }, label), input,
    known.length ? el("datalist", { id: `${id}-known` }, known.map((one) => el("option", { value: one }))) : null, hint && el("p", { class: "hint", id: `${id}-hint` }, hint));
}
