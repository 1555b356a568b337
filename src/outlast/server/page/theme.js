// Before the first paint: a scheme that somebody chose must not flash up in the other.
(() => {
  try {
    const chosen = localStorage.getItem("outlast.scheme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.scheme = chosen;
  } catch {
    // A browser that keeps nothing shows what it prefers.
  }
})();
