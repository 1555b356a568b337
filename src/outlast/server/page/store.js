// Values that are watched: the whole of what the views need of a framework.

/** A value with watchers. `watch` calls at once and returns what ends it. */
export function cell(value) {
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const heard of [...watchers]) heard(value);
    },
    watch(heard) {
      watchers.add(heard);
      heard(value);
      return () => watchers.delete(heard);
    },
  };
}

/** What a view has to end when it goes: called in turn, the last first, each once. */
export function endings() {
  const all = [];
  return {
    add(end) {
      all.push(end);
      return end;
    },
    end() {
      while (all.length) all.pop()();
    },
  };
}

/** Calls `act` once per frame, however often it is asked; a page that is not seen has a slow clock instead of frames. */
export function everyFrame(act) {
  let asked = 0;
  let timer = 0;
  const go = () => {
    cancelAnimationFrame(asked);
    clearTimeout(timer);
    asked = timer = 0;
    act();
  };
  return {
    ask() {
      if (asked) return;
      asked = requestAnimationFrame(go);
      timer = setTimeout(go, 250);
    },
    end() {
      cancelAnimationFrame(asked);
      clearTimeout(timer);
      asked = timer = 0;
    },
  };
}
