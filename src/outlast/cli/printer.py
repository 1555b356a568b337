"""Draws a turn as it happens, so that no sentence stands there twice.

What is settled is printed once and for good. What is still open is drawn in a live region below it, which is drawn
anew when a call is retracted or another worker takes over. Without a terminal only what is settled is printed.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from outlast.calls import MAIN
from outlast.cli.awaited import Awaited, doubts, wait_of
from outlast.cli.drawing import Drawing
from outlast.cli.network import event_line
from outlast.cli.text import (
    COLOUR,
    MARK,
    WHY,
    age,
    answer_text,
    arguments_text,
    dollars,
    payload_text,
    plain,
    short,
    tokens,
)
from outlast.clock import Clock, SystemClock
from outlast.records import Usage
from outlast.records.events import Event
from outlast.watch import CallView, Screen

_LIVE_CALLS: Final = 6
_LIVE_LINES: Final = 4
"""Of each open call, its newest ones."""
_REDRAW_S: Final = 0.05


class Terminal(Console):
    """A console that leaves it to the command what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass
class _Turn:
    """What the live region says of the turn beside its calls."""

    attempts: int = 1
    open: bool = False
    at_s: float = 0.0
    usage: Usage = field(default_factory=Usage)


class Printer:
    """Prints the events of one session. A context: the live region lasts as long as it does.

    Args:
        hint: what the person may do, in the live region.
        session: its id, for the commands that bring about what it waits for.
        drawing: its waterfall: in the live region, and for good when a turn is settled.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        clock: Clock | None = None,
        hint: str = "",
        session: str = "SESSION",
        drawing: Drawing | None = None,
    ) -> None:
        self.console = console or Terminal(highlight=False, soft_wrap=True)
        self.screen = Screen()
        self._clock = clock or SystemClock()
        self._hint = hint
        self._session = session
        self._drawing = drawing
        self._turn = _Turn()
        self._arguments: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self._waiting: list[Text] | None = None
        self._drawn_s = 0.0
        # FORCE_COLOR makes rich take a file for a terminal; colours may go there, a region that moves may not.
        self.live = (
            self.console.is_terminal and self.console.file.isatty() and not self.console.is_dumb_terminal
        )
        self._region = Live(
            console=self.console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=sys.stderr.isatty(),
        )

    def __enter__(self) -> Self:
        if self.live:
            self._region.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self._erase()

    @contextmanager
    def aside(self) -> Generator[None]:
        """Make room for a question: while it lasts nothing is drawn, and what is settled waits."""
        if self.live:
            self._erase()
        self._waiting = []
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            for line in waiting:
                self.console.print(line)
            if self.live:
                self._region.start()
                self._draw()

    def note(self, text: str) -> None:
        """A line about the watching itself: on a terminal above the live region, else on standard error."""
        if self.live:
            self._print(Text(f"  {plain(text)}", "bright_black"))
        else:
            sys.stderr.write(f"{plain(text)}\n")

    def apply(self, event: Event) -> None:
        """Take in one event and draw."""
        self.screen.apply(event)
        self._remember(event)
        line = self._line(event)
        if line is not None:
            self._print(line)
        if self._drawing is not None:
            self._drawing.apply(event)
            if event.kind == "turn.settled" or (self._drawing.lines and event.kind == "turn.parked"):
                self._print_drawing(self._drawing)
        if line is not None or self._clock.elapsed() - self._drawn_s >= _REDRAW_S:
            self._draw()

    def tick(self) -> None:
        """Draw what has changed with time alone."""
        self._draw()

    def _print(self, line: Text) -> None:
        if self._waiting is None:
            self.console.print(line)
        else:
            self._waiting.append(line)

    def _print_drawing(self, drawing: Drawing) -> None:
        if self.live or drawing.lines:
            for line in drawing.anew(self.console.width):
                self._print(line)

    def _draw(self) -> None:
        if self.live and self._waiting is None:
            self._drawn_s = self._clock.elapsed()
            self._region.update(self._open_calls(), refresh=True)

    def _erase(self) -> None:
        self._region.update(Text(""), refresh=True)
        self._region.stop()

    def _remember(self, event: Event) -> None:
        turn = self._turn
        match event.kind:
            case "turn.opened":
                self._turn = _Turn(open=True, at_s=event.at_s)
            case "turn.settled":
                turn.open = False
                self.screen.calls.clear()
                self._arguments.clear()
                self._since.clear()
            case "attempt.opened":
                turn.attempts += turn.open
            case "call.opened":
                wait = self._wait(event)
                self._arguments[event.call] = arguments_text(event.payload) if wait is None else wait.text
                self._since[event.call] = event.at_s
            case "call.started":
                self._since[event.call] = event.at_s
            case "call.settled" | "call.retracted" if event.usage is not None:
                turn.usage = turn.usage + event.usage
            case _:
                pass

    def _line(self, event: Event) -> Text | None:  # noqa: C901 - one arm per kind, nothing else
        match event.kind:
            case "attempt.opened" if self._turn.open:
                worker = event.facts.get("worker", "?")
                return Text(f"  ▸ attempt {self._turn.attempts} by {worker}", "bright_black")
            case "turn.opened":
                return Text(f"turn {event.turn}", "bold").append(f"  {_quoted(event)}", "not bold")
            case "call.opened":
                return self._asked(event)
            case "call.settled":
                return self._settled(event)
            case "call.decided":
                by = f" by {short(event.text)}" if event.text else ""
                return Text(
                    f"  » {self._name(event):8} decided: {event.status.replace('_', ' ')}{by}", "cyan"
                )
            case "signal.kept":
                return Text(
                    f"  » signal   {short(event.name)} {short(payload_text(event.payload))}".rstrip(), "cyan"
                )
            case "document.edited":
                by = f" by {short(str(event.facts['by']))}" if event.facts.get("by") else ""
                return Text(f"  » document {event.name} is version {event.facts.get('version')}{by}", "cyan")
            case "input.refused":
                return Text(f"  » refused  {short(event.name)}: {short(event.text, 200)}", "yellow")
            case "document.rejected":
                return Text(f"  » document {event.name} stays: {short(event.text, 200)}", "yellow")
            case "call.retracted":
                return Text(f"  ↶ {self._name(event):8} {short(event.text, 200)}", "bright_black")
            case "call.verdict":
                said = event.status.replace("_", " ")
                return Text(
                    f"  ? {self._name(event):8} verify says {said} {short(event.text)}".rstrip(),
                    "bright_black",
                )
            case "steer.taken":
                return Text(f"  » steer    {short(event.text)}", "cyan")
            case "prompt.queued" if self._turn.open:
                return Text(f"  » queued   {_quoted(event)}", "cyan")
            case "attempt.ended" if event.status == "waiting":
                return Text("  ▪ waits    no worker holds it meanwhile", "bright_black")
            case "attempt.ended":
                ended = f"  ▪ attempt  {event.status.replace('_', ' ')} {short(event.text, WHY)}"
                return Text(ended.rstrip(), "yellow")
            case "turn.parked" if event.status == "decision":
                return self._in_doubt(event)
            case "turn.parked":
                evidence = msgspec.json.encode(event.facts).decode()
                return Text(f"turn {event.turn} {event.status}: {short(evidence, 400)}", "yellow")
            case "files.lost":
                return Text(f"  ⚠ files    {short(event.text, 1000)}", "yellow")
            case "network.asked":
                return Text(event_line(event), "yellow" if event.status == "refused" else "cyan")
            case "turn.continued":
                return Text(f"turn {event.turn} begins again with {_quoted(event)}", "bright_black")
            case "session.forked":
                source, at = event.facts.get("source"), event.facts.get("at")
                return Text(f"a fork of {short(str(source), 128)} at commit {at} begins here", "bold")
            case "turn.released":
                return Text(f"turn {event.turn} goes on", "bold")
            case "turn.settled":
                spent = "" if event.usage is None else f" · {tokens(event.usage)}"
                reason = f": {short(event.text, 500)}" if event.text else ""
                return Text(f"turn {event.turn} {event.status}{spent}{reason}", "bold")
            case _:  # a gap too: it is text of a call whose whole result is printed when it is settled
                return None

    def _wait(self, event: Event) -> Awaited | None:
        """What a call that is opened waits for, if it waits."""
        if event.facts.get("kind") != "wait" or event.payload.ref:
            return None
        about, until_s = event.payload.value(), float(event.facts.get("until_s", 0.0))
        return wait_of(self._session, event.call, about, until_s, str(event.facts.get("child", "")))

    def _asked(self, event: Event) -> Text | None:
        """A wait is told when it begins: it may be the last that happens for days."""
        wait = self._wait(event)
        if wait is None:
            return None
        lines = [f"  … {wait.text}", *(f"      {command}" for command in wait.commands)]
        return Text("\n".join(lines), "yellow" if wait.what == "answer" else "cyan")

    def _in_doubt(self, event: Event) -> Text:
        lines = [f"turn {event.turn} waits for a decision"]
        for call in event.facts.get("in_doubt", ()):
            about = self._arguments.get(call, "")
            name = self.screen.calls[call].name if call in self.screen.calls else f"call {call}"
            lines.append(f"  ? {short(name, 40):8} {about}   is in doubt: it may have run".rstrip())
            offered = str(call) in event.facts.get("compensate", {})
            lines += [f"      {way}" for way in doubts(self._session, call, compensation=offered)]
        return Text("\n".join(lines), "yellow")

    def _settled(self, event: Event) -> Text | None:
        view = self.screen.calls[event.call]
        if view.kind == "value":
            return None  # the loop looked at a clock or drew a number: nothing happened
        took = f"{float(event.facts.get('duration_s', 0.0)):.1f} s"
        line = Text("  ").append(f"{MARK.get(event.status, '●')} ", COLOUR.get(event.status, ""))
        line.append(f"{_lane(view)}{self._name(event):8} {took:>7}   ")
        note = "" if event.status == "ok" else event.status.replace("_", " ")
        if view.kind == "wait":
            came = "" if view.name == "sleep" else short(payload_text(event.payload), 120)
            line.append("   ".join(filter(None, [came, note])))
        elif _is_model(view, event):
            line.append("   ".join(filter(None, [tokens(event.usage) if event.usage else "", note])))
            said = answer_text(event).replace("\n", "\n    ")
            line.append(f"\n    {said}" if said else "")
        else:
            why = short(payload_text(event.payload), 120) if event.status == "error" else ""
            line.append("   ".join(filter(None, [self._arguments.get(event.call, ""), note, why])))
        line.rstrip()
        return line

    def _name(self, event: Event) -> str:
        view = self.screen.calls.get(event.call)
        if view is not None and view.kind:
            return "model" if view.kind == "model" else short(view.name, 40)
        return f"call {event.call}"  # watched from behind its beginning

    def _open_calls(self) -> Group:
        rows: list[str] = []
        drawn: Sequence[Text] = ()
        if not self._turn.open:
            rows.append(f"    waiting …   {self._hint}")
        else:
            open_ones = [view for view in self.screen.calls.values() if view.settled is None]
            for view in open_ones[-_LIVE_CALLS:]:
                rows += self._open_call(view)
            drawn = () if self._drawing is None else self._drawing.now(self.console.width)
            so_far = age(self._clock.now() - self._turn.at_s)
            rows.append(
                "   ".join(filter(None, [f"    {so_far}", dollars(self._turn.usage.cost_usd), self._hint]))
            )
        # One row each, cut at the edge: a region whose rows wrapped could not be erased whole.
        lines = [Text(row, "bright_black", no_wrap=True, overflow="ellipsis") for row in rows]
        return Group(*lines[:-1], *drawn, lines[-1])

    def _open_call(self, view: CallView) -> list[str]:
        model = view.kind == "model"
        shown = view.shown.get("text") or view.shown.get("output") or view.shown.get("thinking") or ""
        tail = plain(shown[-4000:]).rstrip().splitlines()[-_LIVE_LINES:]
        width = max(20, self.console.width - 6)
        took = age(self._clock.now() - self._since.get(view.call, self._clock.now()))
        about = "" if model else self._arguments.get(view.call, "")
        name = "model" if model else short(view.name, 40)
        head = f"  ◌ {_lane(view)}{name:8} {took:>7}   {about}".rstrip()
        return [head, *(f"    {line[-width:]}" for line in tail)]


def _lane(view: CallView) -> str:
    return "" if view.lane in {"", MAIN} else f"[{short(view.lane, 20)}] "


def _is_model(view: CallView, event: Event) -> bool:
    return view.kind == "model" or (not view.kind and event.usage is not None)


def _quoted(event: Event) -> str:
    return short(payload_text(event.payload), 80)
