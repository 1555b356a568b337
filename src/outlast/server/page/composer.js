// Where somebody says something: a prompt, a steer while a turn runs, or that the turn ends.

import { chooser } from "./attachments.js";
import { ownId } from "./api.js";
import { button, el, fill, say } from "./dom.js";

/** `api` is the session's. Returns `{node, update(turn), focus()}`. */
export function composer(api) {
  const id = `say-${api.id}`;
  const text = el("textarea", { id, rows: 1, dir: "auto", "aria-describedby": `${id}-hint` });
  const label = el("label", { for: id });
  const wrong = el("p", { class: "why", role: "alert" });
  const buttons = el("div", { class: "buttons" });
  const files = chooser(id, (text) => { wrong.textContent = text; });
  const hint = el("p", { class: "hint", id: `${id}-hint` });
  let open = false;
  // The same words sent again, after an answer that was lost, are the same input.
  let sent = { words: "", id: "" };

  const send = async (what) => {
    const words = text.value.trim();
    if (!words) return text.focus();
    wrong.textContent = "";
    text.readOnly = true;
    const attachments = what === "steer" ? [] : files.taken();
    const content = JSON.stringify([what, words, attachments]);
    if (sent.words !== content) sent = { words: content, id: ownId() };
    try {
      await api.ask(what === "steer" ? "/steers" : "/turns", { body: { text: words, id: sent.id, ...(attachments.length && { attachments }) } });
      text.value = "";
      if (what !== "steer") files.clear();
      sent = { words: "", id: "" };
      grow();
      say(what === "steer" ? "The running turn is told." : "The prompt is durable.");
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      text.readOnly = false;
    }
  };
  const cancel = async () => {
    wrong.textContent = "";
    try {
      await api.ask("/cancels", { body: {} });
      say("The turn is told to end.");
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  const grow = () => {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, 240)}px`;
  };
  text.addEventListener("input", grow);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(open ? "steer" : "prompt");
  });

  const update = (turn) => {
    open = Boolean(turn);
    label.textContent = open ? `Steer turn ${turn.number}` : "Prompt";
    text.placeholder = open ? "Tell the running turn something…" : "What should be done?";
    hint.textContent = open ? "Enter steers, Shift+Enter is a new line." : "Enter sends, Shift+Enter is a new line.";
    fill(buttons, open
      ? [button("Steer", () => send("steer"), { class: "main" }), button("Queue", () => send("prompt"), { "aria-label": "Queue as the next prompt" }), button("Cancel turn", cancel, { class: "danger" })]
      : [button("Send", () => send("prompt"), { class: "main" })]);
  };
  update(null);
  const node = el("div", { class: "composer" }, wrong, label, text, files.node, el("div", { class: "under" }, hint, buttons));
  return { node, update, focus: () => text.focus() };
}
