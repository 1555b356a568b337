"""The checkpoints of one thread, as its journal has them. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from langgraph.checkpoint.base import writes_sort_key

from outlast.adapters.langgraph.journal import Dropped, Entry, Name, Put, Typed, Value, Version, Write, Writes


class Index:
    """Finds checkpoints, the values of their channels and what is written for the next."""

    def __init__(self) -> None:
        self._puts: dict[str, dict[str, Put]] = {}
        self._newest: dict[str, str] = {}
        self._successors: dict[Name, str] = {}
        """The checkpoint by which a graph went on from another."""
        self._values: dict[tuple[str, str, Version], Value] = {}
        self._writes: dict[Name, dict[tuple[str, int], tuple[str, Write]]] = {}
        self._lists: dict[tuple[str, str], tuple[Version, list[Typed]]] = {}
        """The list that was last put together for a channel: the next version begins with nearly all of it."""

    def apply(self, entry: Entry) -> None:
        """Carry it over one entry."""
        match entry:
            case Put():
                self._put(entry)
            case Writes():
                self._write(entry)
            case Dropped(names=names):
                for name in names:
                    self._drop(name)

    def _put(self, put: Put) -> None:
        self._puts.setdefault(put.ns, {})[put.id] = put
        self._newest[put.ns] = max(self._newest.get(put.ns, ""), put.id)
        for value in put.values:
            self._values[put.ns, value.channel, value.version] = value
            if self._lists.get((put.ns, value.channel), ("",))[0] == value.version:
                del self._lists[put.ns, value.channel]  # a version that is written anew
        if put.source == "loop" and put.parent:
            self._successors.setdefault((put.ns, put.parent), put.id)

    def _write(self, entry: Writes) -> None:
        there = self._writes.setdefault((entry.ns, entry.id), {})
        for write in entry.writes:
            # Writes with a place of their own stand as they were first; errors, interrupts and answers to these change.
            if write.at < 0 or (entry.task, write.at) not in there:
                there[entry.task, write.at] = (entry.path, write)

    def _drop(self, name: Name) -> None:
        ns, id_ = name
        there = self._puts.get(ns, {})
        there.pop(id_, None)
        self._writes.pop(name, None)
        if not there:
            self._puts.pop(ns, None)
            self._newest.pop(ns, None)
        elif self._newest[ns] == id_:
            self._newest[ns] = max(there)

    def find(self, ns: str, id_: str = "") -> Put | None:
        """A checkpoint; without an id the newest."""
        return self._puts.get(ns, {}).get(id_ or self._newest.get(ns, ""))

    def successor(self, ns: str, id_: str) -> str:
        """The checkpoint by which a graph went on from this one; empty if none has."""
        return self._successors.get((ns, id_), "")

    def puts(self, ns: str | None = None) -> Iterator[Put]:
        """All checkpoints, of one namespace or of all, the newest of each first."""
        for name, there in self._puts.items():
            if ns is None or name == ns:
                for id_ in sorted(there, reverse=True):
                    yield there[id_]

    def pending(self, ns: str, id_: str) -> Sequence[tuple[str, Write]]:
        """What tasks wrote for the checkpoint after this one, with the task's id, in LangGraph's order."""
        there = self._writes.get((ns, id_), {})
        ordered = sorted(there.items(), key=lambda one: writes_sort_key(one[1][0], one[0][0], one[0][1]))
        return [(task, write) for (task, _), (_, write) in ordered]

    def values(self, put: Put) -> Mapping[str, Typed | list[Typed]]:
        """What the channels of a checkpoint hold: a list element by element. Empty channels are not there."""
        found: dict[str, Typed | list[Typed]] = {}
        for channel, version in put.versions.items():
            value = self._values.get((put.ns, channel, version))
            if value is not None and value.whole is not None:
                found[channel] = value.whole
            elif value is not None and value.items is not None:
                found[channel] = self._list(put.ns, value)
        return found

    def list_before(self, ns: str, parent: str, channel: str) -> tuple[Version, Sequence[Typed]] | None:
        """The version of a list in a parent checkpoint, and its elements."""
        put = self.find(ns, parent) if parent else None
        version = None if put is None else put.versions.get(channel)
        value = None if version is None else self._values.get((ns, channel, version))
        if value is None or value.items is None:
            return None
        return value.version, self._list(ns, value)

    def _list(self, ns: str, value: Value) -> list[Typed]:
        known = self._lists.get((ns, value.channel))
        tails: list[Value] = []
        items: list[Typed] = []
        step: Value | None = value
        while step is not None:
            if known is not None and step.version == known[0]:
                items = list(known[1])
                break
            tails.append(step)
            step = None if step.base is None else self._values[ns, value.channel, step.base]
        for tail in reversed(tails):
            items[tail.kept :] = tail.items or ()
        self._lists[ns, value.channel] = (value.version, items)
        return items
