"""What `show` and `log` say of a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from outlast.calls import MAIN
from outlast.cli.awaited import Awaited, lines_of
from outlast.cli.listing import Row
from outlast.cli.network import line_of
from outlast.cli.text import MARK, WHY, arguments_text, dollars, payload_text, plain, short, tokens
from outlast.fold import AttemptState, CallState, SessionState, TurnState, records_of
from outlast.records import AnyRecord, NetworkAsked, Payload, TurnOpened, TurnSettled, Usage
from outlast.session import Session
from outlast.tool import result_text
from outlast.world import SessionHead


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn of a session, as one line tells it."""

    turn: int
    status: str
    prompt: str
    error: str
    usage: Usage
    network: Mapping[str, NetworkAsked] = field(default_factory=dict[str, NetworkAsked])
    """What it asked of its workspace's way out."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that `show` tells."""

    head: SessionHead
    state: SessionState
    turns: Sequence[TurnRow]
    result: Any
    """Of the last settled turn."""
    row: Row
    awaits: Sequence[Awaited] = ()
    """What the open turn waits for."""
    drawn: Sequence[str] = ()
    """The waterfall of a turn."""
    timeline: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same, for programs."""


async def turns_of(session: Session) -> list[TurnRow]:
    """Every turn of the session, from its log."""
    turns: dict[int, TurnRow] = {}
    after = 0
    while page := await session.world.commits(session.id, after, 500):
        for commit in page:
            after = commit.header.seq
            for record in records_of(session.id, commit):
                if isinstance(record, TurnOpened):
                    prompt = await _text(session, record.prompt)
                    turns[record.turn] = TurnRow(record.turn, "open", prompt, "", Usage())
                elif isinstance(record, NetworkAsked) and record.turn in turns:
                    row = turns[record.turn]
                    turns[record.turn] = replace(row, network={**row.network, record.about: record})
                elif isinstance(record, TurnSettled) and record.turn in turns:
                    turns[record.turn] = replace(
                        turns[record.turn],
                        status=record.status,
                        error=record.error,
                        usage=record.usage or Usage(),
                    )
    return list(turns.values())


async def _text(session: Session, payload: Payload) -> str:
    return result_text(await session.value(payload))


def report_json(report: Report) -> dict[str, Any]:
    """`show --json`."""
    state, turn = report.state, report.state.turn
    opened = state.opened
    return {
        "session": report.head.session,
        "agent": report.head.agent,
        "head": report.head,
        "cwd": "" if opened is None else opened.cwd,
        "home": "" if opened is None else opened.home,
        "parent": None if opened is None else opened.parent,
        "forked": None if state.forked is None else {"source": state.forked.source, "at": state.forked.at},
        "settings": {} if opened is None else opened.settings,
        "usage": state.usage,
        "turns": report.turns,
        "open_turn": None if turn is None else _turn_json(turn, report.awaits),
        "queued": [{"input": one.input, "prompt": one.prompt, "steered": one.steered} for one in state.queue],
        "result": report.result,
        "timeline": report.timeline,
    }


def _turn_json(turn: TurnState, awaits: Sequence[Awaited]) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "input": turn.input,
        "attempts": turn.attempts,
        "fruitless": turn.fruitless,
        "usage": turn.usage,
        "calls": list(turn.calls.values()),
        "network": list(turn.asked.values()),
        "parked": None if turn.parked is None else {"why": turn.parked.why, "evidence": turn.parked.evidence},
        "awaits": awaits,
    }


def report_text(report: Report) -> str:
    """`show` for people."""
    head, state = report.head, report.state
    lines = [f"session {head.session} · {head.agent} · {head.status}"]
    if state.opened is not None and state.opened.cwd:
        lines.append(f"  in {plain(state.opened.cwd)}")
    if state.opened is not None and state.opened.parent is not None:
        parent = state.opened.parent
        lines.append(f"  spawned by call {parent.call} of {parent.session}")
    if state.forked is not None:
        lines.append(f"  a fork of {state.forked.source} at commit {state.forked.at}")
    if report.row.waits and (head.worker is not None or head.waiting_inputs or not report.awaits):
        lines.append(f"  {report.row.waits}")
    word = "open" if state.turn is None else state.turn.word
    lines += [line for row in report.turns for line in _turn_lines(row, word)]
    if state.turn is not None:
        lines += [*_open_turn_lines(state.turn), *report.drawn]
        lines += lines_of(report.awaits)
    else:
        lines += report.drawn
    if state.turn is None and state.last is not None and report.result is not None:
        lines.append(f"  {short(result_text(report.result), 2000)}")
    lines += [f"queued  {short(payload_text(one.prompt), 80)}" for one in state.queue]
    return "\n".join(lines)


def _turn_lines(row: TurnRow, word: str) -> list[str]:
    if row.status == "open":  # its calls are told too, and the network after them
        return [f"turn {row.turn} {word}  {short(row.prompt, 80)}"]
    error = f"  {short(row.error, 300)}" if row.error else ""
    line = f"turn {row.turn} {row.status}  {dollars(row.usage.cost_usd)}  {short(row.prompt, 80)}{error}"
    return [line, *map(line_of, row.network.values())]


def _open_turn_lines(turn: TurnState) -> list[str]:
    last = len(turn.attempts)
    lines = [_attempt_line(at, attempt, newest=at == last) for at, attempt in enumerate(turn.attempts, 1)]
    if turn.past:
        lines.append(f"  … {turn.past} calls before its loop began again")
    lines += [call_line(call) for call in turn.calls.values()]
    lines += [line_of(asked) for asked in turn.asked.values()]
    if turn.parked is not None and turn.parked.why != "decision":
        evidence = msgspec.json.format(msgspec.json.encode(turn.parked.evidence), indent=2).decode()
        why = "over its budget" if turn.parked.why == "budget" else turn.parked.why
        lines += [f"It is {why}. The evidence:", plain(evidence)]
    return lines


def _attempt_line(number: int, attempt: AttemptState, *, newest: bool) -> str:
    ended = attempt.ended if " " in attempt.ended else attempt.ended.replace("_", " ")  # a reason, or a word
    ended = short(ended, WHY) or ("" if newest else "its worker was lost")
    facts = f"fence {attempt.fence}  {attempt.worker}  {attempt.settled} calls settled"
    return f"  ▸ attempt {number}  {facts}  {ended}".rstrip()


def call_line(call: CallState) -> str:
    """A call of the open turn."""
    intent = call.intent
    if call.outcome is None:
        mark, state = ("◌", "open") if call.begun else ("·", "granted")
        took = ""
    else:
        mark, state = MARK[call.outcome.status], call.outcome.status.replace("_", " ")
        took = f"{call.outcome.duration_s:.1f} s"
    lane = "" if intent.lane == MAIN else f"[{short(intent.lane, 20)}] "
    name = "model" if intent.kind == "model" else short(intent.name, 40)
    line = f"  {mark} {intent.call:>4}  {lane}{name:10} {state:11} {took:>8}  "
    if intent.kind == "model":
        return (line + (tokens(call.spent) if call.spent != Usage() else "")).rstrip()
    verdict = "" if call.verdict is None else f"  verify said {call.verdict.verdict.replace('_', ' ')}"
    child = f"{intent.child}  " if intent.child else ""
    undone = f"  compensates call {intent.compensates}" if intent.compensates else ""
    return f"{line}{intent.policy:6}  {child}{arguments_text(intent.arguments)}{verdict}{undone}".rstrip()


def record_line(seq: int, index: int, fence: int, record: AnyRecord) -> str:
    """A record in `log`."""
    data = msgspec.json.decode(msgspec.json.encode(record), type=dict[str, msgspec.Raw])
    kind = msgspec.json.decode(data.pop("is"), type=str)
    facts = " ".join(f"{name}={short(bytes(value).decode(), 80)}" for name, value in data.items())
    return f"{seq:>5}.{index} #{fence} {kind:16} {facts}".rstrip()
