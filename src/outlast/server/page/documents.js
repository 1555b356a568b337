// The session's documents, live, and edited: each edit names the version that it was made of.

import { button, el, fill, say } from "./dom.js";
import { changes, diffOf, tight } from "./diff.js";
import { to } from "./router.js";
import { json } from "./output.js";
import { endings } from "./store.js";
import { plain } from "./words.js";

export function documents(into, api, events, name) {
  const over = endings();
  const list = el("ul", { class: "names" });
  const place = el("div", { class: "beside" });
  fill(into, el("nav", { class: "names-nav", "aria-label": "Documents" }, list, button("New document", () => fresh(place, api), { class: "link-like" })), place);
  let shown = null;
  const load = async () => {
    try {
      const { documents: versions } = await api.ask("");
      const names = Object.keys(versions ?? {}).sort();
      fill(list, names.map((one) => el("li", {}, el("a", { href: to("sessions", api.id, "documents", one), "aria-current": one === name ? "page" : null }, plain(one)), el("span", { class: "dim" }, ` ${versions[one]}`))));
      if (!name && names.length) name = names[0];
      if (name && !shown) shown = editor(place, api, name);
      else if (!names.length && !shown) fill(place, el("p", { class: "dim" }, "No document yet. The agent makes them, or you do."));
    } catch (error) {
      fill(place, el("p", { class: "why" }, error.message));
    }
  };
  over.add(events.watch((come) => {
    const edited = come?.filter(({ kind }) => kind === "document.edited") ?? [];
    if (edited.length) load();
    if (edited.some((event) => event.name === name)) shown?.moved();
  }));
  load();
  return () => over.end();
}

/** One document. What somebody has typed is never written over: a newer version is shown beside it. */
function editor(place, api, name) {
  const text = el("textarea", { class: "document", rows: 18, spellcheck: "false", "aria-label": `Document ${name}` });
  const said = el("p", { class: "why", role: "alert" });
  const about = el("p", { class: "dim" });
  const beside = el("div", {});
  const save = button("Save", () => send(), { class: "main" });
  let base = { version: 0, text: "" };
  const isTouched = () => text.value !== base.text;

  const read = async () => {
    const found = await api.ask(`/documents/${encodeURIComponent(name)}`);
    return { version: found.version, text: textOf(found.value) };
  };
  const take = (found) => {
    base = found;
    text.value = found.text;
    about.textContent = `Version ${found.version}`;
    fill(beside);
  };
  const conflict = (found) => {
    const lines = tight(changes(found.text, text.value));
    fill(beside, el("section", { class: "card is-person", "aria-label": "Two versions" },
      el("h3", {}, `It is version ${found.version} meanwhile; yours was made of version ${base.version}`),
      el("p", {}, "Nothing is lost: yours stands in the field above. Removed lines are only in the newer version, added ones only in yours."),
      diffOf(lines, "The newer version against yours"),
      el("div", { class: "buttons" },
        button("Keep mine, over the newer version", () => {
          base = { ...base, version: found.version };
          send();
        }, { class: "main" }), button("Take the newer version", () => take(found)))));
  };
  const moved = async () => {
    try {
      const found = await read();
      if (found.version === base.version) return;
      if (isTouched() && found.text !== text.value) conflict(found);
      else take(found);
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const send = async () => {
    said.textContent = "";
    let value;
    try {
      value = JSON.parse(text.value);
    } catch (error) {
      said.textContent = `This is no JSON: ${error.message}`;
      return;
    }
    save.disabled = true;
    try {
      const { document: now } = await api.ask(`/documents/${encodeURIComponent(name)}`, { method: "PATCH", body: { edits: [{ op: "set", value }], if_version: base.version } });
      if (now) take({ version: now.version, text: textOf(now.value) });
      else said.textContent = "The edit is durable. It is made by the next worker that advances the session.";
      say(now ? `Document ${name} is saved.` : said.textContent);
    } catch (error) {
      said.textContent = error.message;
      if (error.status === 409) await moved();
    }
    save.disabled = false;
  };
  fill(place, el("h2", {}, plain(name)), about, text, said, el("div", { class: "buttons" }, save, button("Undo my changes", () => take({ ...base }))), beside);
  read().then(take, (error) => (said.textContent = error.message));
  return { moved };
}

function fresh(place, api) {
  const name = el("input", { id: "document-name", required: true, pattern: "[A-Za-z0-9._\\-]+" });
  const said = el("p", { class: "why", role: "alert" });
  const make = async () => {
    try {
      await api.ask(`/documents/${encodeURIComponent(name.value.trim())}`, { method: "PATCH", body: { edits: [{ op: "set", value: {} }], if_version: 0 } });
      location.hash = to("sessions", api.id, "documents", name.value.trim());
    } catch (error) {
      said.textContent = error.message;
    }
  };
  fill(place, el("div", { class: "field" }, el("label", { for: "document-name" }, "Name of the document"), name), said, el("div", { class: "buttons" }, button("Make it", make, { class: "main" })), json({}));
  name.focus();
}

const textOf = (value) => `${JSON.stringify(value, null, 2)}\n`;
