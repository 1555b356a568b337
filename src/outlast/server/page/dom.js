// Elements, made without a line of HTML: what a session said can only ever become text.

/** `el("p", {class: "note", on: {click}}, "text", child)`. Null and false children and attributes are left out. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) set(node, name, value);
  put(node, children);
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "on") for (const [event, heard] of Object.entries(value)) node.addEventListener(event, heard);
  else if (name === "data") Object.assign(node.dataset, value);
  else if (name === "value") node.value = value;
  else node.setAttribute(name, value === true ? "" : String(value));
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
}

/** Gives `node` these children and no others. */
export function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

/** `text` may be parts, too. */
export function button(text, clicked, props = {}) {
  return el("button", { type: "button", on: { click: clicked }, ...props }, text);
}

/** Says something to those who do not see the page: sparingly, a sentence at a time. */
export function say(text) {
  const region = document.getElementById("said");
  if (region) region.textContent = text;
}
