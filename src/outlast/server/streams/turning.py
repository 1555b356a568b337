"""Folds the events of a session into the moves of one of its turns. Pure.

The events come in order and with their payloads inline (`talk` sees to that); the same events give the same moves,
whoever watched when.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from outlast.calls import MAIN
from outlast.records import Payload
from outlast.records.events import Event
from outlast.server.streams.moves import (
    Asked,
    Attempt,
    Began,
    Called,
    Document,
    Ended,
    Gap,
    Move,
    Paused,
    Piece,
    PieceKind,
    Question,
    Ruled,
    Said,
    Settled,
    Started,
    Steered,
    Void,
    Waits,
)
from outlast.server.streams.saying import Saying, Words, read_saying

DOTS: Final = "…"
"""Stands for what was shown and is lost."""


@dataclass(slots=True)
class _Call:
    kind: str
    name: str
    lane: str
    ours: bool
    input: object = None
    shown: dict[PieceKind, str] = field(default_factory=dict[PieceKind, str])
    asks: int = 0
    asked: bool = False
    """It is being asked about, and nobody has decided."""
    question: bool = False


class TurnMoves:
    """Folds the events of a session into the moves of the turn that one prompt became.

    Args:
        prompt: id of the input.
    """

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.turn = 0
        """Its number; 0 before it was opened."""
        self.over = False
        self._calls: dict[int, _Call] = {}
        self._lanes: set[str] = set()
        """Lanes beside the conversation that have asked a model."""
        self._attempts = 1
        self._steers = 0
        self._pauses = 0
        self._kinds: Mapping[str, Callable[[Event], Iterator[Move]]] = {
            "turn.opened": self._began,
            "attempt.opened": self._attempt,
            "attempt.ended": self._attempt_ended,
            "call.opened": self._opened,
            "call.started": self._started,
            "call.text": self._live,
            "call.thinking": self._live,
            "call.output": self._live,
            "call.retracted": self._retracted,
            "call.settled": self._settled,
            "call.decided": self._decided,
            "turn.parked": self._parked,
            "steer.taken": self._steered,
            "document.edited": self._document,
            "gap": self._gap,
            "turn.settled": self._ended,
        }

    def take(self, event: Event) -> list[Move]:
        """The moves that this event brings about."""
        if event.kind == "input.refused" and event.name == self.prompt and not self.turn:
            self.over = True
            return [Settled(0, "failed", event.text or "The prompt was refused.", None, None)]
        fold = self._kinds.get(event.kind)
        began = event.kind == "turn.opened" and event.name == self.prompt
        if fold is None or self.over or not (began or self.turn):
            return []
        everywhere = event.kind in {"attempt.opened", "document.edited", "gap"}
        if not (began or everywhere or event.turn == self.turn):
            return []
        return list(fold(event))

    def _began(self, event: Event) -> Iterator[Move]:
        self.turn = event.turn
        yield Began(event.turn, event.name, value_of(event.payload), event.at_s)

    def _attempt(self, event: Event) -> Iterator[Move]:
        self._attempts += 1
        for call in list(self._calls):
            yield from self._void(call, "another worker goes on")
        yield Attempt(event.attempt, self._attempts, str(event.facts.get("worker", "")))

    def _void(self, number: int, why: str) -> Iterator[Move]:
        call = self._calls.get(number)
        if call is not None and call.shown:
            call.shown = {}
            yield Void(number, why)

    def _opened(self, event: Event) -> Iterator[Move]:
        kind = str(event.facts.get("kind", ""))
        if kind == "model" and event.lane != MAIN:
            self._lanes.add(event.lane)
        ours = event.lane not in self._lanes
        call = self._calls[event.call] = _Call(kind, event.name, event.lane, ours)
        match kind:
            case "model":
                yield Asked(event.call, event.lane, event.name, ours)
            case "tool":
                call.input = value_of(event.payload)
                yield Called(event.call, event.lane, event.name, call.input, ours)
            case "wait":
                yield self._waits(event, call)
            case _:
                pass  # the loop looks at a clock, draws a number: nothing happens

    def _waits(self, event: Event, call: _Call) -> Waits:
        call.input = value_of(event.payload)
        about = cast("dict[str, Any]", call.input) if isinstance(call.input, dict) else {}
        child, until_s = str(event.facts.get("child", "")), float(event.facts.get("until_s", 0.0))
        call.question = not child and "question" in about
        what = (
            "child" if child else "answer" if call.question else "signal" if about.get("signal") else "time"
        )
        return Waits(event.call, what, about, until_s, child)

    def _started(self, event: Event) -> Iterator[Move]:
        yield Started(event.call)

    def _live(self, event: Event) -> Iterator[Move]:
        call = self._calls.get(event.call)
        if call is None:
            return
        kind = cast("PieceKind", event.kind.removeprefix("call."))
        if event.offset < len(call.shown.get(kind, "")):  # it says something else from there on
            kept: dict[PieceKind, str] = {**call.shown, kind: call.shown[kind][: event.offset]}
            yield from self._void(event.call, "it was written anew")
            for one, text in kept.items():
                yield from self._show(event.call, call, one, text)
        if event.offset > len(call.shown.get(kind, "")):
            # What is lost stands as one sign for whoever watches, and here as many, so that offsets stay the log's.
            yield Piece(event.call, call.lane, kind, len(call.shown.get(kind, "")), DOTS, call.ours)
            call.shown[kind] = call.shown.get(kind, "").ljust(event.offset, DOTS)
        yield from self._show(event.call, call, kind, event.text)

    @staticmethod
    def _show(number: int, call: _Call, kind: PieceKind, text: str) -> Iterator[Move]:
        if text:
            shown = call.shown.get(kind, "")
            call.shown[kind] = shown + text
            yield Piece(number, call.lane, kind, len(shown), text, call.ours)

    def _retracted(self, event: Event) -> Iterator[Move]:
        yield from self._void(event.call, event.text)

    def _settled(self, event: Event) -> Iterator[Move]:
        call = self._calls.get(event.call)
        if call is None:
            return
        value = value_of(event.payload)
        if call.kind == "model":
            saying = read_saying(value) if event.status == "ok" else Saying()
            known = bool(saying.words) or event.status != "ok" or not event.payload.ref
            if known:
                yield from self._rest(event.call, call, saying)
            yield Said(event.call, call.lane, event.status, saying, call.ours, event.usage)
        elif call.kind in {"tool", "wait"}:
            wait = call.kind == "wait"
            yield Ended(event.call, call.lane, call.name, event.status, value, call.ours, wait)
        del self._calls[event.call]

    def _rest(self, number: int, call: _Call, saying: Saying) -> Iterator[Move]:
        """What the answer holds beyond what was shown."""
        kinds: tuple[Words, ...] = ("text", "thinking")
        if not all(saying.whole(kind).startswith(call.shown.get(kind, "")) for kind in kinds):
            yield from self._void(number, "the answer is another")
        left = {kind: len(call.shown.get(kind, "")) for kind in kinds}
        for kind, text in saying.words:
            known = min(left[kind], len(text))
            left[kind] -= known
            yield from self._show(number, call, kind, text[known:])

    def _decided(self, event: Event) -> Iterator[Move]:
        call = self._calls.get(event.call)
        if call is not None:
            call.asked = False
        yield Ruled(event.call, event.status, event.text)

    def _parked(self, event: Event) -> Iterator[Move]:
        if event.status == "signal":
            return
        facts = event.facts
        doubts, allows = _numbers(facts.get("in_doubt")), _numbers(facts.get("asks"))
        whys, offered = _words_of(facts.get("why")), _words_of(facts.get("compensate"))
        asks = [
            self._question(number, "doubt" if number in doubts else "allow", whys, offered)
            for number in (*doubts, *allows)
            if number in self._calls
        ]
        yield from self._pause(event.status, [*asks, *self._questions()], facts)

    def _attempt_ended(self, event: Event) -> Iterator[Move]:
        questions = self._questions() if event.status == "waiting" else []
        if questions:
            yield from self._pause("answer", questions, {})

    def _pause(self, why: str, asks: list[Question], evidence: Mapping[str, Any]) -> Iterator[Move]:
        self._pauses += 1
        yield Paused(self._pauses, why, tuple(asks), evidence)

    def _questions(self) -> list[Question]:
        open_ones = [number for number, call in self._calls.items() if call.question]
        return [self._question(number, "answer", {}, {}) for number in open_ones]

    def _question(
        self,
        number: int,
        what: Literal["doubt", "allow", "answer"],
        whys: Mapping[str, str],
        offered: Mapping[str, str],
    ) -> Question:
        call = self._calls[number]
        call.asks += not call.asked
        call.asked = True
        why, compensation = whys.get(str(number), ""), offered.get(str(number), "")
        return Question(number, call.asks, what, call.name, call.input, why, compensation)

    def _steered(self, event: Event) -> Iterator[Move]:
        self._steers += 1
        yield Steered(event.call, self._steers, event.text)

    def _document(self, event: Event) -> Iterator[Move]:
        version, by = int(event.facts.get("version", 0)), str(event.facts.get("by", ""))
        yield Document(event.name, version, value_of(event.payload), by, event.call)

    def _gap(self, event: Event) -> Iterator[Move]:
        yield Gap(int(event.facts.get("deltas", 0)))

    def _ended(self, event: Event) -> Iterator[Move]:
        self.over = True
        yield Settled(event.turn, event.status, event.text, value_of(event.payload), event.usage)


def value_of(payload: Payload) -> Any:
    """The value of a payload; of one that is too large to be shown, what it is."""
    return {"blob": payload.ref, "bytes": payload.size} if payload.ref else payload.value()


def _numbers(value: object) -> tuple[int, ...]:
    return tuple(int(one) for one in cast("list[int]", value)) if isinstance(value, list | tuple) else ()


def _words_of(value: object) -> dict[str, str]:
    return cast("dict[str, str]", value) if isinstance(value, dict) else {}
