// Which prompts come by themselves, and when.

import { formDialog } from "./dialog.js";
import { button, el, fill } from "./dom.js";
import { endings } from "./store.js";
import { age, asText, moment, plain, short } from "./words.js";

export function schedules(into, api, events) {
  const over = endings();
  const list = el("div", {});
  fill(into, el("section", { class: "sheet" }, el("header", {}, el("h2", {}, "Schedules"), el("span", { class: "grow" }), button("New schedule", () => make(api, load), { class: "main" })), list));
  async function load() {
    try {
      const { schedules: found } = await api.ask("/schedules");
      const texts = await Promise.all(found.map(({ prompt }) => api.value(prompt)));
      fill(list, found.length ? el("ul", { class: "plain" }, found.map((one, at) => line(one, texts[at], api, load))) : el("p", { class: "dim" }, "No prompt comes by itself."));
    } catch (error) {
      fill(list, el("p", { class: "why" }, error.message));
    }
  }
  over.add(events.watch((come) => come?.some(({ kind }) => kind.startsWith("schedule.")) && load()));
  load();
  return () => over.end();
}

function line(one, text, api, load) {
  const remove = async () => {
    await api.ask(`/schedules/${encodeURIComponent(one.name)}`, { method: "DELETE" });
    load();
  };
  const when = one.cron ? `cron ${one.cron}${one.zone ? ` (${one.zone})` : ""}` : one.every_s ? `every ${age(one.every_s)}` : "once";
  return el("li", {}, el("strong", {}, plain(one.name)), el("span", {}, plain(when)),
    el("span", { class: "dim" }, one.due_s ? `next ${moment(one.due_s)}` : ""),
    el("span", { class: "about" }, short(asText(text ?? ""), 200)), button("Remove", remove, { class: "link-like", "aria-label": `Remove the schedule ${one.name}` }));
}

async function make(api, load) {
  const made = await formDialog("New schedule", [
    { name: "name", label: "Name", required: true, value: "nightly" },
    { name: "text", label: "Prompt", kind: "area", required: true },
    { name: "cron", label: "When (cron)", value: "0 3 * * *", required: true, hint: "Minute, hour, day of the month, month, day of the week." },
    { name: "zone", label: "Time zone", value: Intl.DateTimeFormat().resolvedOptions().timeZone },
  ], async ({ name, ...rest }) => {
    await api.ask(`/schedules/${encodeURIComponent(name)}`, { method: "PUT", body: rest });
  }, { verb: "Set" });
  if (made) load();
}
