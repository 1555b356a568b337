"""The waterfall of a turn in a terminal: attempts above, a line for each lane, calls as bars over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from textwrap import wrap
from typing import Final, TypeAlias

from outlast.cli.axis import Axis, Span, axis_of
from outlast.cli.saved import log_text, sentence, span
from outlast.cli.text import short
from outlast.timeline import AttemptBar, CallBar, Lane, LogCost, TurnBar

Line: TypeAlias = "list[tuple[str, str]]"
"""Pieces of text, each with its style: a colour by its name, `bold`, or nothing."""

LABEL: Final = 10
"""Columns before the drawing."""
LANES: Final = 12
"""Lanes that are drawn; of more, the first."""
NARROW: Final = 20
"""Columns that a drawing has at least."""
DENSE: Final = 4
"""Calls of a lane for each column beyond which single ones are not marked: marks would be all that is seen."""
_TOGETHER: Final = "\u00a0"

ENDS: Final = {"lost": "✕", "failed": "✕", "handed_over": "⇥", "parked": "‖", "waiting": "‖", "provider": "‖"}
MODEL, TOOL, KEPT_MODEL, KEPT_TOOL, LOST, WAIT, OPEN, CUT = "█", "▄", "▓", "▒", "╌", "─", "▸", "┊"
STATUS: Final = {
    "error": ("✗", "red"),
    "in_doubt": ("?", "yellow"),
    "interrupted": ("↷", "yellow"),
    "cancelled": ("○", ""),
}
LEGEND: Final = {
    MODEL: "model",
    TOOL: "tool",
    KEPT_MODEL: "model, from the log since",
    KEPT_TOOL: "tool, from the log since",
    LOST: "lost or void",
    WAIT: "waits",
    OPEN: "open",
    "✗": "error",
    "?": "in doubt",
    "↷": "interrupted",
    "○": "cancelled",
    "✕": "worker lost",
    "⇥": "handed over",
    "‖": "stands still",
    CUT: "time cut short",
}


@dataclass
class _Line:
    """One line of the drawing: what stands in each column, the weightier on top."""

    columns: int
    signs: dict[int, tuple[int, str, str]] = field(default_factory=dict[int, tuple[int, str, str]])

    def put(self, first: int, last: int, weight: int, sign: str, style: str = "") -> None:
        for at in range(max(0, first), min(self.columns - 1, last) + 1):
            if self.signs.get(at, (-1,))[0] < weight:
                self.signs[at] = (weight, sign, style)

    def write(self, first: int, text: str, room: int, style: str = "") -> None:
        """`text` from a column on, as far as there is room for it."""
        for at, sign in enumerate(text[: max(0, room)]):
            self.put(first + at, first + at, 5, sign, style)

    def pieces(self, label: str) -> Line:
        line: Line = [(f"  {short(label, LABEL - 1):{LABEL - 1}} ", "bright_black")]
        for at in range(max(self.signs, default=-1) + 1):
            _, sign, style = self.signs.get(at, (0, " ", ""))
            if line[-1][1] == style:
                line[-1] = (line[-1][0] + sign, style)
            else:
                line.append((sign, style))
        return line


def waterfall(turn: TurnBar, now_s: float, width: int, *, log: LogCost | None = None) -> list[Line]:
    """The drawing, no line wider than `width`; of a turn without calls none.

    Args:
        now_s: up to where calls reach that are open.
        log: what its log takes up, if that is known.
    """
    if not turn.calls or not turn.lanes:
        return []
    columns = max(NARROW, width - LABEL - 3)
    until_s = max(turn.opened_s, now_s if turn.status == "open" else turn.settled_s)
    ends = {one.attempt: one.last_s for one in turn.attempts if one.ended}
    tries = [span_ for lane in turn.lanes for call in lane.calls for span_, _ in _tries(call, ends, until_s)]
    moments = [(at_s, at_s) for one in turn.attempts for at_s in (one.began_s, one.last_s)]
    axis = axis_of([*tries, *moments], turn.opened_s, until_s, columns)
    newest = turn.attempts[-1].attempt if turn.attempts else 0
    lanes = [_lane(lane, axis, columns, ends, until_s, newest) for lane in turn.lanes[:LANES]]
    lines = [_attempts(turn.attempts, axis, columns), *lanes]
    drawn = [
        line.pieces(label)
        for line, label in zip(lines, ["attempt", *(one.name for one in turn.lanes)], strict=False)
    ]
    if len(turn.lanes) > LANES:
        drawn.append([(f"  … {len(turn.lanes) - LANES} more lanes", "bright_black")])
    drawn.append(_times(turn, axis, columns).pieces(""))
    return [*drawn, *_words(turn, lines, width, log)]


def _words(turn: TurnBar, lines: Sequence[_Line], width: int, log: LogCost | None) -> Iterator[Line]:
    used = {sign for line in lines for _, sign, _ in line.signs.values()}
    items = [f"{sign} {what}" for sign, what in LEGEND.items() if sign in used]
    failed = sum(call.status == "error" for lane in turn.lanes for call in lane.calls)
    if failed and "✗" not in used:
        items.append(f"✗ {failed:,} calls ended as an error, too close to draw")
    legend = "   ".join(item.replace(" ", _TOGETHER) for item in items)
    said = sentence(turn) + (f" The log of the turn takes up {log_text(log)}." if log is not None else "")
    for text, style in ((legend, "bright_black"), (said, "")):
        for line in wrap(text, max(NARROW, width - 4), break_on_hyphens=False):
            yield [(f"  {line.replace(_TOGETHER, ' ')}", style)]


def _tries(call: CallBar, ends: dict[int, float], until_s: float) -> Iterator[tuple[Span, bool]]:
    """When each try of a call ran, and whether it counts; nothing of what takes no worker."""
    if call.kind not in {"model", "tool"}:
        return
    over_s = call.settled_s if call.status else until_s
    for at, one in enumerate(call.tries):
        last = at + 1 == len(call.tries)
        next_s = over_s if last else call.tries[at + 1].began_s
        ended_s = min(over_s, next_s, ends.get(one.attempt, over_s))
        yield (one.began_s, max(one.began_s, ended_s)), last and not one.void


def _lane(lane: Lane, axis: Axis, columns: int, ends: dict[int, float], until_s: float, newest: int) -> _Line:
    line = _Line(columns)
    for part in axis.cuts:
        line.put(part.first, part.first, 1, CUT, "bright_black")
    for call in lane.calls:
        if call.kind == "value":
            continue
        if call.kind == "wait":
            over_s = call.settled_s if call.status else until_s
            line.put(axis.column(call.opened_s), axis.column(over_s), 0, WAIT, "yellow")
            continue
        kept = bool(call.status) and call.settled_in < newest
        for (began_s, ended_s), counts in _tries(call, ends, until_s):
            sign, style = _sign(call, kept=kept, counts=counts)
            line.put(axis.column(began_s), axis.column(ended_s), 3 if counts else 2, sign, style)
        if call.status in STATUS and (call.status != "error" or len(lane.calls) <= DENSE * columns):
            line.put(axis.column(call.settled_s), axis.column(call.settled_s), 4, *STATUS[call.status])
        elif not call.status and call.tries and call.tries[-1].attempt not in ends:
            line.put(axis.column(until_s), axis.column(until_s), 4, OPEN, "bold")
    return line


def _sign(call: CallBar, *, kept: bool, counts: bool) -> tuple[str, str]:
    style = "blue" if call.kind == "model" else "green"
    if not counts:
        return LOST, style
    if call.kind == "model":
        return (KEPT_MODEL if kept else MODEL), style
    return (KEPT_TOOL if kept else TOOL), style


def _attempts(attempts: Sequence[AttemptBar], axis: Axis, columns: int) -> _Line:
    line = _Line(columns)
    for at, one in enumerate(attempts):
        first, ended = axis.column(one.began_s), axis.column(one.last_s)
        following = axis.column(attempts[at + 1].began_s) if at + 1 < len(attempts) else columns
        if one.ended in ENDS:
            style = "red" if ENDS[one.ended] == "✕" else "yellow"
            line.put(ended, ended, 6, ENDS[one.ended], style)
            following = max(ended, first + 1)
        worker = short(one.worker, 40)
        line.write(first, f"{at + 1} {worker}", following - first - (one.ended not in ENDS), "bold")
    return line


def _times(turn: TurnBar, axis: Axis, columns: int) -> _Line:
    """When it began, and how long each cut was."""
    line = _Line(columns)
    began = datetime.fromtimestamp(turn.opened_s, UTC).astimezone().strftime("%H:%M:%S")
    line.write(0, began, (axis.cuts[0].first if axis.cuts else columns) - 1, "bright_black")
    for part in axis.cuts:
        line.write(
            part.first, span(part.ended_s - part.began_s).replace(" ", ""), part.columns, "bright_black"
        )
    return line
