"""What watchers see: the events of a session from a cursor on, and the screen that a watcher makes of them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from outlast.codec import decode_delta
from outlast.fold import records_of
from outlast.records import Payload
from outlast.records.events import Event, delta_event, face
from outlast.world import Commit, Cursor, Delta, Gap, Item, World


async def events(world: World, session: str, after: Cursor, *, hidden: bool = False) -> AsyncGenerator[Event]:
    """Every event behind `after`, in order, then whatever comes, without end; hidden ones only where they are wanted.

    The cursor of each event is where reading goes on: after a disconnection a reader gives the last one it has.
    """
    async with aclosing(world.follow(session, after)) as items:
        async for item in items:
            for event in _shown(session, item):
                if hidden or event.kind != "hidden":
                    yield event


def _shown(session: str, item: Item) -> list[Event]:
    match item.what:
        case Commit() as commit:
            return faces(session, commit, item.first)
        case Delta(body=body):
            return [delta_event(decode_delta(body), str(item.cursor))]
        case Gap(count=count):
            return [Event(str(item.cursor), "gap", facts={"deltas": count})]


def faces(session: str, commit: Commit, first: int = 0) -> list[Event]:
    """The events of a commit from its `first` on, counted from 0, hidden ones among them."""
    header = commit.header
    return [
        face(record, str(Cursor(header.seq, at)), header.fence)
        for at, record in enumerate(records_of(session, commit))
        if at >= first
    ]


def of_turn(turn: int) -> Callable[[Event], bool]:
    """Whether an event is of what a turn shows; asked of one event after the other, in order.

    What an attempt or a gap does to the screen counts for the turn that is open then, though neither names one.
    """
    begun = False

    def belongs(event: Event) -> bool:
        nonlocal begun
        begun = begun or event.turn == turn
        return event.turn == turn or (begun and event.kind in {"attempt.opened", "gap"})

    return belongs


class CallView(msgspec.Struct):
    """What a screen shows of one call."""

    call: int
    name: str = ""
    lane: str = ""
    kind: str = ""
    shown: dict[str, str] = {}
    """Live text by kind of delta; void once the call is settled, retracted or taken over."""
    status: str = "open"
    settled: Event | None = None


class Screen:
    """Folds events into what a watcher has on its screen, applying retractions.

    The rules, which every client follows:

    * a delta at offset n replaces everything of its kind from n on; what is missing before n (a `gap`) shows as dots;
    * `call.retracted` voids what the call has shown;
    * `attempt.opened` voids what every open call has shown;
    * `call.settled` replaces what the call has shown by its result.
    """

    def __init__(self) -> None:
        self.calls: dict[int, CallView] = {}
        self.turns: dict[int, str] = {}
        self.cursor = "0.0"

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self.cursor = event.cursor
        if event.kind.startswith("call."):
            self._call(event)
        elif event.kind.startswith("turn."):
            self.turns[event.turn] = event.status if event.kind in {"turn.settled", "turn.parked"} else "open"
        elif event.kind == "attempt.opened":
            for view in self.calls.values():
                view.shown = {}

    def _call(self, event: Event) -> None:
        view = self.calls.setdefault(event.call, CallView(event.call))
        match event.kind:
            case "call.opened":
                view.name, view.lane, view.kind = event.name, event.lane, str(event.facts.get("kind", ""))
            case "call.settled":
                view.status, view.settled, view.shown = event.status, event, {}
            case "call.retracted":
                view.shown = {}
            case "call.text" | "call.thinking" | "call.output":
                kind = event.kind.removeprefix("call.")
                before = view.shown.get(kind, "")[: event.offset].ljust(event.offset, "…")
                view.shown = {**view.shown, kind: before + event.text}
            case _:
                pass

    def lines(self) -> list[str]:
        """The screen as text, for comparing two of them."""
        rows: list[str] = []
        for view in self.calls.values():
            live = "".join(f" {kind}={text!r}" for kind, text in sorted(view.shown.items()))
            result = "" if view.settled is None else _text(view.settled.payload)
            rows.append(f"{view.call} {view.lane} {view.name} {view.status}{live}{result}")
        return [*rows, *(f"turn {turn} {status}" for turn, status in self.turns.items())]


def _text(payload: Payload) -> str:
    return f" {payload.ref or bytes(payload.json)!r}"
