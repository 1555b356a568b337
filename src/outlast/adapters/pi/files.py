"""Pi's session file in one attempt: rebuilt from the mirror, cut to where Pi can go on, mirrored on."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio.to_thread

from outlast.adapter import MAIN, Attempt, ToolResult
from outlast.adapters.lines import end_of
from outlast.adapters.pi import session
from outlast.adapters.pi.launch import session_path
from outlast.adapters.pi.policies import policy_of
from outlast.adapters.pi.results import AGAIN, LOST, as_told
from outlast.adapters.shapes import Json
from outlast.beneath import READ_LIMIT, Beneath
from outlast.errors import HarnessError
from outlast.fold import CallState, TurnState
from outlast.ids import stable_uuid


@dataclass(frozen=True, slots=True)
class Ready:
    """How Pi is to be started."""

    say_prompt: bool
    """The prompt is said; else Pi goes on by itself."""
    walks: int = 0
    """Main requests in the log that Pi is going to make again."""
    steers: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """What is to be said again behind the n-th answer to these."""
    known: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """How calls of Pi's own tools have ended, by call id."""


class SessionFile:
    """Pi's file of one session, in one attempt."""

    def __init__(self, attempt: Attempt, uuid: str) -> None:
        self._attempt = attempt
        self._uuid = uuid
        self._path = session_path(uuid)
        self._lines: list[str] = []
        self._count = 0
        self._offset = 0
        self._begins = 0
        self._names = 0
        self._order = asyncio.Lock()
        self._home = Beneath(attempt.places.home)

    async def prepare(self) -> Ready:
        """Bring the file to where Pi can go on. Every answer that is then in it is delivered."""
        attempt = self._attempt
        self._lines = list((await attempt.mirrored()).get(self._path, ()))
        await self._replace(*session.without_continues(self._lines))
        entries = self._entries()
        begins = session.turn_begins(entries, attempt.turn.input)
        if begins is None:
            await self._begin_turn()
            there = session.Turn(begun=False)
        else:
            await self._replace(session.fit(entries, begins, len(attempt.turn.steers)))
            there = session.found(self._entries(), begins)
        ready = await self._go_on(there)
        self._write()
        return ready

    async def _go_on(self, there: session.Turn) -> Ready:
        """What Pi is going to ask again, and what it must be told meanwhile."""
        turn = self._attempt.turn
        asked = [c for c in turn.calls.values() if c.intent.kind == "model" and c.intent.lane == MAIN]
        answered = [c for c in asked if c.outcome is not None and c.outcome.status == "ok"][: there.answers]
        delivered = [call.intent.call for call in answered]
        self._attempt.calls.delivered(delivered)
        walked = [call.intent.call for call in asked if call.intent.call not in delivered]
        steers: dict[int, list[str]] = {}
        for steer in turn.steers[there.steers :]:
            if steer.call in walked:
                steers.setdefault(walked.index(steer.call), []).append(plain(steer.text))
        for text in steers.pop(0, ()):
            await self._append(session.say_steer(self._entries(), text, self._pen()))
        known = await self._known(turn, delivered[-1] if delivered else 0)
        return Ready(not there.begun, len(walked), steers, known)

    async def _known(self, turn: TurnState, after: int) -> Mapping[str, ToolResult]:
        """How the calls have ended that answers behind the call `after` have asked for."""
        return {
            call.intent.harness_id: await self._attempt.outcome(call.intent.call)
            for call in turn.calls.values()
            if call.intent.call > after and _ran_in_harness(call) and call.outcome is not None
        }

    async def _begin_turn(self) -> None:
        """Nothing of this turn is in the file: close the turn before it."""
        if not self._lines:
            pen = session.Pen(self._uuid, self._pen().at_ms)
            await self._append(session.header(str(self._attempt.places.cwd), pen))
        cut = self._attempt.state.cut
        entries = self._entries()
        begun = None if cut is None else session.turn_begins(entries, cut.input)
        if cut is not None and begun is not None:
            await self._replace(session.unsaid(entries, begun, len(cut.steers)))
        for call in session.dangling(self._entries()):
            told = as_told(await self._end_of(call, cut))
            await self._append(session.say_result(self._entries(), call, told, self._pen()))
        await self._append(session.begin_turn(self._entries(), self._attempt.turn.input, self._pen()))

    async def _end_of(self, lost: session.Dangling, cut: TurnState | None) -> ToolResult:
        """How a call of the turn before this one ended, or of what Pi did before the log began."""
        for call in cut.calls.values() if cut is not None else ():
            # Of a call of OpenAI's Responses, Pi's id is two: the call's, a bar, the item's.
            own = lost.id == call.intent.harness_id or lost.id.startswith(f"{call.intent.harness_id}|")
            if own and call.intent.harness_id and call.outcome is not None:
                return await self._attempt.outcome(call.intent.call)
        return AGAIN if policy_of(lost.name, lost.arguments) == "safe" else LOST

    def _entries(self) -> Sequence[Json]:
        return session.parse(self._lines)

    def _pen(self) -> session.Pen:
        self._names += 1
        name = stable_uuid(self._uuid, str(self._attempt.fence), str(self._names))
        return session.Pen(name, round(self._attempt.clock.now() * 1000))

    async def _append(self, line: str) -> None:
        await self._replace(len(self._lines), [line])

    async def _replace(self, keep: int, lines: Sequence[str] = ()) -> None:
        if keep < len(self._lines) or lines:
            self._lines[keep:] = lines
            await self._attempt.mirror(self._path, keep, lines)

    def _write(self) -> None:
        lines = session.placed(self._lines, str(self._attempt.places.cwd))
        data = "".join(f"{line}\n" for line in lines).encode()
        self._home.write(self._path, data)
        self._offset, self._count = len(data), len(self._lines)
        self._lines = []

    async def go_on(self) -> None:
        """Leave the file as it is, and mirror on behind what the log has."""
        known = self._attempt.state.files.get(self._path)
        self._count = 0 if known is None else known.lines
        end = await anyio.to_thread.run_sync(end_of, self._home, self._path, self._count)
        self._begins = self._offset = end

    @property
    def has_prompt(self) -> bool:
        """Whether the prompt of a turn that began behind what the log had is in what is mirrored."""
        own = self._home.read(self._path, offset=self._begins, most=self._offset - self._begins)
        entries = session.parse(own.decode(errors="replace").split("\n"))
        begins = session.turn_begins(entries, self._attempt.turn.input)
        return begins is not None and session.found(entries, begins).begun

    async def mirror(self) -> None:
        """Record what Pi has appended since the last time: in the log before whatever is written after this."""
        async with self._order:
            while lines := self._appended():
                position, self._count = self._count, self._count + len(lines)
                await self._attempt.mirror(self._path, position, lines)

    def _appended(self) -> Sequence[str]:
        """The whole lines that are new, or some of them."""
        new = self._home.read(self._path, offset=self._offset)
        whole, end, torn = new.rpartition(b"\n")
        if len(torn) == READ_LIMIT:
            raise HarnessError(harness="Pi", reason=f"a line of its session has more than {READ_LIMIT} bytes")
        self._offset += len(whole) + len(end)
        return whole.decode(errors="replace").split("\n") if end else ()


def plain(text: str) -> str:
    """What a person says, as words: what begins with a slash would be a command of Pi's own."""
    return f" {text}" if text.lstrip().startswith("/") else text


def _ran_in_harness(call: CallState) -> bool:
    return call.intent.kind != "model" and call.intent.runs_in == "harness" and bool(call.intent.harness_id)
