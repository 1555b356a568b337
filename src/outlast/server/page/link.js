// How the page is connected: what it says at the top, and the feed of all sessions.

const WORDS = { loading: "reads…", live: "", lost: "connecting again…", gone: "erased" };
const place = document.getElementById("link");

/** Shows the state of a connection while it is watched. Returns what ends that. */
export function watchLink(state) {
  const stop = state.watch((now) => {
    place.textContent = WORDS[now] ?? now;
    place.dataset.state = now;
  });
  return () => {
    stop();
    place.textContent = "";
    delete place.dataset.state;
  };
}

/** Every change of a session: `follow(heard)` hands over each row, and returns what ends it. */
export const sessionsFeed = {
  follow(heard) {
    const source = new EventSource("/v1/changes");
    source.onmessage = (message) => heard(JSON.parse(message.data));
    source.onerror = () => (place.textContent = WORDS.lost);
    source.onopen = () => (place.textContent = "");
    return () => {
      source.close();
      place.textContent = "";
    };
  },
};
