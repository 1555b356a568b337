"""Draws a turn on the terminal as it happens, so that no sentence stands there twice.

What is settled is printed once and for good. What is still open is drawn in a live region below it, which is drawn
anew when a call is retracted or another worker takes over. Without a terminal only what is settled is printed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from outlast.cli.exits import Exit
from outlast.cli.text import arguments_text, short, tokens
from outlast.records.events import Event
from outlast.session import Session
from outlast.watch import CallView, Screen

_MARK = {"ok": "●", "error": "✗", "in_doubt": "?", "interrupted": "↷", "cancelled": "○"}
_COLOUR = {"ok": "green", "error": "red", "in_doubt": "yellow", "interrupted": "yellow", "cancelled": "dim"}
_LIVE_LINES = 8


@dataclass
class Printer:
    """Prints the events of one session."""

    title: str = ""
    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    seen: Callable[[Event], None] = lambda event: None  # noqa: ARG005 - somebody else who watches

    def __post_init__(self) -> None:
        self.screen = Screen()
        self._arguments: dict[int, str] = {}
        self._live = Live(console=self.console, transient=True, refresh_per_second=12, auto_refresh=False)
        self._attempts = 0

    def __enter__(self) -> "Printer":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def apply(self, event: Event) -> None:
        """Take in one event and draw."""
        self.seen(event)
        self.screen.apply(event)
        if event.kind == "call.opened":
            self._arguments[event.call] = arguments_text(event.payload)
        line = self._line(event)
        if line is not None:
            self.console.print(line)
        if self.console.is_terminal:
            self._live.update(self._open_calls(), refresh=True)

    def _line(self, event: Event) -> Text | None:
        match event.kind:
            case "attempt.opened":
                self._attempts += 1
                worker = event.facts.get("worker", "?")
                return (
                    Text(f"  ▸ attempt {self._attempts} by {worker}", "dim") if self._attempts > 1 else None
                )
            case "turn.opened":
                return Text(f"turn {event.turn}", "bold")
            case "call.settled":
                return self._settled(event)
            case "call.retracted":
                return Text(f"  ↶ model    asked again: {short(event.text)}", "dim")
            case "call.verdict":
                return Text(
                    f"  ? {self._name(event.call):8} verify says {event.status} {short(event.text)}", "dim"
                )
            case "steer.taken":
                return Text(f"  » steer    {short(event.text)}", "cyan")
            case "attempt.ended":
                return Text(
                    f"  ▪ attempt  {event.status.replace('_', ' ')} {short(event.text, 200)}", "yellow"
                )
            case "turn.parked":
                evidence = msgspec.json.encode(event.facts).decode()
                return Text(f"turn {event.turn} {event.status}: {short(evidence, 400)}", "yellow")
            case "turn.settled":
                spent = "" if event.usage is None else f" · {tokens(event.usage)}"
                return Text(f"turn {event.turn} {event.status}{spent} {event.text}".rstrip(), "bold")
            case _:
                return None

    def _settled(self, event: Event) -> Text:
        view = self.screen.calls[event.call]
        took = f"{float(event.facts.get('duration_s', 0.0)):.1f} s"
        mark = Text(f"  {_MARK.get(event.status, '●')} ", _COLOUR.get(event.status, ""))
        lane = "" if view.lane in {"", "main"} else f"[{view.lane}] "
        if view.kind == "model":
            said = answer_text(event)
            line = mark.append(
                f"{lane}{'model':8} {took:>7}   {tokens(event.usage) if event.usage else ''}", ""
            )
            return line.append(f"\n    {said}", "italic") if said else line
        text = self._arguments.get(event.call, "")
        note = "" if event.status == "ok" else f"   {event.status.replace('_', ' ')}"
        return mark.append(f"{lane}{view.name:8} {took:>7}   {text}{note}", "")

    def _name(self, call: int) -> str:
        return self.screen.calls[call].name if call in self.screen.calls else str(call)

    def _open_calls(self) -> Text:
        rows: list[str] = []
        for view in self.screen.calls.values():
            if view.settled is None:
                rows += self._open_call(view)
        return Text("\n".join(rows[-_LIVE_LINES:]), "dim")

    def _open_call(self, view: CallView) -> list[str]:
        name = "model" if view.kind == "model" else view.name
        shown = view.shown.get("text") or view.shown.get("output") or view.shown.get("thinking") or ""
        tail = shown.rstrip().splitlines()[-3:]
        width = max(20, self.console.width - 6)
        return [
            f"  ◌ {name:8} {self._arguments.get(view.call, '')}" if view.kind != "model" else f"  ◌ {name}",
            *(f"    {line[-width:]}" for line in tail),
        ]


def answer_text(event: Event) -> str:
    """The text of a model's answer, if it stands in the event."""
    if event.payload.ref:
        return ""
    answer = event.payload.value()
    if not isinstance(answer, dict):
        return ""
    if isinstance(answer.get("text"), str):
        return answer["text"]
    blocks = answer.get("content")
    if not isinstance(blocks, list):
        return ""
    return "\n    ".join(
        block["text"] for block in blocks if isinstance(block, dict) and block.get("type") == "text"
    )


def outcome_code(status: str) -> int:
    """The exit code of a command that waits for a turn."""
    return {"done": Exit.OK, "failed": Exit.FAILED, "cancelled": Exit.CANCELLED}.get(status, Exit.WAITING)


async def follow_turn(session: Session, printer: Printer, after: str, *, until_settled: bool) -> int | None:
    """Draw what comes; with `until_settled` until the turn ends or is parked."""
    with printer:
        async for event in session.follow(after):
            printer.apply(event)
            if until_settled and event.kind in {"turn.settled", "turn.parked"}:
                return outcome_code(event.status)
    return None
