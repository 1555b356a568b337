"""Stored histories: sessions as earlier releases wrote them, and what must be read in them for ever."""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.codec import canonical, decode_input, read_messages, request_of
from outlast.fold import CallState, SessionState, TurnState, fold
from outlast.fold import records_of as of_commit
from outlast.ids import digest
from outlast.records import EMPTY, AnyRecord, CallIntent, Payload
from outlast.records.events import face
from outlast.squeezing import unsqueeze
from outlast.world.commit import Commit, Header

HERE = Path(__file__).parent


class History(msgspec.Struct):
    """A session as a file: its commits with their headers as JSON, bytes in base 64."""

    session: str
    headers: list[Header]
    bodies: list[str]
    blobs: dict[str, str]
    inputs: dict[str, str]
    """Bodies of inputs by id."""

    @classmethod
    def of(cls, session: str, commits: Sequence[Commit], inputs: Mapping[str, bytes]) -> "History":
        blobs = {name: _text(data) for commit in commits for name, data in commit.blobs.items()}
        texts = {name: _text(body) for name, body in inputs.items()}
        headers = [commit.header for commit in commits]
        return cls(session, headers, [_text(commit.body) for commit in commits], blobs, texts)

    def commits(self) -> list[Commit]:
        """What a World would give back."""
        pairs = zip(self.headers, self.bodies, strict=True)
        return [Commit(header, b64decode(body)) for header, body in pairs]


def _text(data: bytes) -> str:
    return b64encode(data).decode()


async def summary(history: History) -> dict[str, Any]:
    """Everything of a history that recovery and watchers lean on, as plain JSON."""
    commits = history.commits()
    state = fold(history.session, commits)
    return {
        "state": _state(state, history),
        "at_each_commit": [
            _short(fold(history.session, commits[:upto])) for upto in range(1, len(commits) + 1)
        ],
        "events": _events(history),
        "conversations": await _conversations(history),
        "inputs": {
            name: msgspec.to_builtins(decode_input(b64decode(body))) for name, body in history.inputs.items()
        },
        "blobs": {name: digest(unsqueeze(b64decode(data))) for name, data in history.blobs.items()},
    }


def records_of(history: History) -> list[tuple[Header, list[AnyRecord]]]:
    """The records of each commit."""
    return [(commit.header, of_commit(history.session, commit)) for commit in history.commits()]


async def _conversations(history: History) -> dict[str, Any]:
    """How long the conversation of each model call is, and a digest of it."""

    async def get_blobs(names: Sequence[str]) -> Mapping[str, bytes]:
        return {name: b64decode(history.blobs[name]) for name in names}

    read: dict[str, Any] = {}
    for _, records in records_of(history):
        for record in records:
            request = request_of(record)
            if request is not None and isinstance(record, CallIntent):
                frame, messages = await read_messages(request, get_blobs)
                read[str(record.call)] = [frame, len(messages), digest(canonical(messages))]
    return read


def _state(state: SessionState, history: History) -> dict[str, Any]:
    signals = [[signal.input, signal.name, _value(signal.value, history)] for signal in state.signals]
    documents = {
        name: [one.version, one.shape, _value(one.value, history)] for name, one in state.documents.items()
    }
    return {
        **({"signals": signals} if signals else {}),  # not in what was written before there were any
        **_agenda(state, history),
        **({"documents": documents} if documents else {}),
        **({"tree": _tree(state, history)} if state.began else {}),
        **({"forked": msgspec.to_builtins(state.forked)} if state.forked is not None else {}),
        "opened": msgspec.to_builtins(state.opened),
        "seq": state.seq,
        "fence": state.fence,
        "next": [state.next_call, state.next_turn],
        "queue": [[prompt.input, _value(prompt.prompt, history), prompt.steered] for prompt in state.queue],
        "last": None
        if state.last is None
        else [state.last.turn, state.last.status, _value(state.last.result, history)],
        "told": {name: _value(payload, history) for name, payload in state.told.items()},
        "usage": msgspec.to_builtins(state.usage),
        "files": {
            name: [
                line
                for piece, count in zip(file.pieces, file.counts, strict=True)
                for line in _value(piece, history)[:count]
            ]
            for name, file in state.files.items()
        },
        "turn": None if state.turn is None else _turn(state.turn, history),
    }


def _tree(state: SessionState, history: History) -> Any:
    tree = state.tree
    return [tree.root, tree.turn, tree.call, _value(tree.aside, history), state.began]


def _agenda(state: SessionState, history: History) -> dict[str, Any]:
    """What it does by itself; not in what was written before it did anything."""
    if state.next_notice == 1 and not state.schedules:
        return {}
    return {
        "next_notice": state.next_notice,
        "untold": [[one.due.number, one.due.event, one.tries, one.at_s] for one in state.untold],
        "schedules": {
            name: [one.due_s, _value(one.set.prompt, history)] for name, one in state.schedules.items()
        },
        "noticed": [] if state.turn is None else state.turn.noticed,
    }


def _turn(turn: TurnState, history: History) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "prompt": _value(turn.prompt, history),
        "parked": None if turn.parked is None else [turn.parked.why, turn.parked.evidence],
        "ordinals": turn.ordinals,
        "usage": msgspec.to_builtins(turn.usage),
        "attempts": [[one.fence, one.worker, one.settled, one.ended] for one in turn.attempts],
        "calls": {
            str(number): _ruled(call)
            | {
                "intent": msgspec.to_builtins(call.intent, builtin_types=(msgspec.Raw,))
                | {"arguments": _value(call.intent.arguments, history)},
                "request": msgspec.to_builtins(request_of(call.intent)),
                "began": [call.opened, call.started],
                "verdict": None if call.verdict is None else call.verdict.verdict,
                "outcome": None
                if call.outcome is None
                else [call.outcome.status, _value(call.outcome.result, history)],
                "spent": msgspec.to_builtins(call.spent),
                **(
                    {"tries": call.tries} if call.tries else {}
                ),  # not in what was written before there were any
                **({"witness": _value(call.witness, history)} if call.witness != EMPTY else {}),
            }
            for number, call in turn.calls.items()
        },
    }


def _ruled(call: CallState) -> dict[str, Any]:
    """What a person decided, and the signal that ended it: where there is any."""
    ruled: dict[str, Any] = {}
    if call.decided is not None:
        ruled["decided"] = [call.decided.ruling, call.decided.input, call.decided.by]
    if call.outcome is not None and call.outcome.signal:
        ruled["signal"] = call.outcome.signal
    return ruled


def _value(payload: Payload, history: History) -> Any:  # JSON comes in here
    if not payload.ref:
        return payload.value()
    if payload.ref not in history.blobs:
        return [payload.ref, payload.size]
    text = unsqueeze(b64decode(history.blobs[payload.ref]))
    return [digest(text), len(text)] if len(text) > 200 else msgspec.json.decode(text)


def _short(state: SessionState) -> list[Any]:
    """What matters most, commit by commit: turns, prompts that wait, and open calls as `call:started`."""
    if state.turn is None:
        return [state.next_turn, len(state.queue)]
    open_calls = [f"{call.intent.call}:{call.started}" for call in state.turn.open_calls()]
    return [
        state.next_turn,
        len(state.queue),
        open_calls,
        state.turn.fruitless,
        state.turn.parked is not None,
    ]


def _events(history: History) -> list[str]:
    shown: list[str] = []
    for header, records in records_of(history):
        for at, record in enumerate(records):
            event = face(record, f"{header.seq}.{at}", header.fence)
            shown.append(
                f"{event.cursor} {event.kind} {event.turn} {event.call} {event.name} {event.status}".strip()
            )
    return shown
