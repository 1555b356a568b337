// What the page asks of the server. Every failure is an `ApiError` whose text says what to do next.

/** Where the server is: below a path, when it is mounted in another application or a proxy leads to it. */
export const root = new URL("../..", import.meta.url).pathname.replace(/\/$/, "");
/** What the addresses of its operations begin with. */
export const v1 = `${root}/v1`;

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** How the page hears that its login is over. */
export const signedOut = new EventTarget();

const WITHOUT_ANSWER = "The server does not answer. It is asked again when you repeat this.";

/** Asks for JSON. `body` makes it a POST unless `method` says otherwise. */
export async function ask(path, { body, method, query } = {}) {
  const answer = await fetched(path, { body, method, query });
  if (answer.status === 204) return null;
  const media = answer.headers.get("content-type") ?? "";
  return media.includes("json") ? answer.json() : answer.text();
}

export async function fetched(path, { body, method, query } = {}) {
  const wanted = {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: { accept: "application/json", "x-outlast": "page" },
    credentials: "same-origin",
  };
  if (body !== undefined) {
    wanted.body = JSON.stringify(body);
    wanted.headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(addressed(path, query), wanted);
  } catch {
    throw new ApiError(0, WITHOUT_ANSWER);
  }
  if (!answer.ok) throw await failed(answer);
  return answer;
}

async function failed(answer) {
  let text = `The server answered ${answer.status}.`;
  try {
    text = (await answer.json()).error ?? text;
  } catch {
    // Not ours: something stands between.
  }
  if (answer.status === 401) signedOut.dispatchEvent(new Event("out"));
  return new ApiError(answer.status, text);
}

export function addressed(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** An id for an input, our own: the same id and content again is the same input. */
export function ownId() {
  const drawn = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...drawn].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export const login = (token) => ask(`${v1}/login`, { body: { token } });

/** Everything that is asked about one session. */
export class SessionApi {
  constructor(id) {
    this.id = id;
    this.base = `${v1}/sessions/${encodeURIComponent(id)}`;
    this.blobs = new Map();
  }

  ask(what, wanted) {
    return ask(`${this.base}${what}`, wanted);
  }

  /** The value of a payload, fetched if it stands behind a blob; each once. */
  async value(payload) {
    if (!payload?.ref) return payload?.json ?? null;
    if (!this.blobs.has(payload.ref)) {
      const asked = fetched(`${this.base}/blobs/${encodeURIComponent(payload.ref)}`).then((answer) => answer.json());
      this.blobs.set(payload.ref, asked);
      asked.catch(() => this.blobs.delete(payload.ref));
    }
    return this.blobs.get(payload.ref);
  }
}
