// Where the page stands is in the part of its address behind `#`, which no server is ever sent.

/** Where we are: `#/sessions/ID/files?path=a` is `{parts: ["sessions", "ID", "files"], query}`. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(unquoted);
  return { parts, query: new URLSearchParams(query) };
}

function unquoted(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function to(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function go(address) {
  location.hash = address;
}

export function listen(heard) {
  addEventListener("hashchange", () => heard(here()));
}
