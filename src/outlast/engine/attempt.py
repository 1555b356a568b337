"""One worker's try at a turn, as the adapter and the gateway see it (`outlast.adapter.Attempt`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from outlast.adapter import Agent, Gateway, Look, Places, Processes, Talk, ToolResult
from outlast.attaching import Attachment
from outlast.clock import Clock
from outlast.codec import ModelRequest, read_files, read_messages, request_of
from outlast.documents import Document, Wish
from outlast.engine.calls import AttemptCalls
from outlast.engine.context import Context
from outlast.engine.looks import look
from outlast.engine.results import read_result
from outlast.engine.scene import scene_of
from outlast.engine.silence import SILENCE_S, HeardProcesses, Silence
from outlast.engine.steers import AttemptSteers
from outlast.fold import CallState, FileState, SessionState, TurnState
from outlast.gate import Gate
from outlast.records import Mirrored, Payload
from outlast.recovery import Step
from outlast.squeezing import unsqueeze
from outlast.tool import Tool
from outlast.workspace import Site


def _nothing(_: Places) -> None:
    """They are there."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt finds on its machine."""

    gateway: Gateway
    processes: Processes
    places: Places
    prepare: Callable[[Places], None] = _nothing
    """Makes the directories of `places`; called when they are first asked for, which not every harness does."""
    silence_s: float = SILENCE_S
    """How long a program may be silent while nothing runs that it waits for."""
    site: Site | None = None
    """The session's workspace, open; `processes` and `places` are then of it."""


class EngineAttempt:
    """Holds the parts of one attempt together."""

    def __init__(
        self, context: Context, agent: Agent, around: Surroundings, *, resumed: bool, prompt: str
    ) -> None:
        self._context = context
        context.scene = scene_of(around.site, around.places, around.processes)
        self._around = around
        self._agent = agent
        self._prompt = prompt
        self._prepared = False
        self.resumed = resumed
        self.calls = AttemptCalls(context)
        self.processes: Processes = HeardProcesses(
            around.processes, Silence(context, around.silence_s, self.calls.is_waited_for)
        )
        self.steers = AttemptSteers(context)
        self.plan: Sequence[Step] = ()

    @property
    def tenant(self) -> str:
        return self._context.world.tenant

    @property
    def session(self) -> str:
        return self._context.session

    @property
    def fence(self) -> int:
        return self._context.writer.lease.fence

    @property
    def state(self) -> SessionState:
        return self._context.writer.state

    @property
    def turn(self) -> TurnState:
        return self._context.turn

    @property
    def prompt(self) -> str:
        return self._prompt

    async def attachments(self) -> Sequence[Attachment]:
        kept = self.turn.attachments
        found = await self._context.blobs([one.ref for one in kept])
        return [Attachment(unsqueeze(found[one.ref]), one.name, one.media_type) for one in kept]

    @property
    def settings(self) -> Mapping[str, Any]:
        opened = self.state.opened
        return {} if opened is None else opened.settings

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._context.tools

    @property
    def gate(self) -> Gate:
        return self._context.gate

    @property
    def clock(self) -> Clock:
        return self._context.clock

    @property
    def gateway(self) -> Gateway:
        return self._around.gateway

    @property
    def places(self) -> Places:
        if not self._prepared:
            self._around.prepare(self._around.places)
            self._prepared = True
        return self._around.places

    async def mirror(self, file: str, position: int, lines: Sequence[str], *, durable: bool = False) -> None:
        writer = self._context.writer
        start, kept = await self._whole_pieces(file, position)
        packer = writer.packer()
        all_lines = [*kept, *lines]
        record = Mirrored(file, start, packer.payload(all_lines, what=f"lines of {file}"), len(all_lines))
        landed = self._context.append(record, packer=packer, lazy=not durable)
        if durable:
            await writer.durable(landed)

    async def _whole_pieces(self, file: str, position: int) -> tuple[int, Sequence[str]]:
        """Where the piece begins that line `position` would cut, and its lines before that: they are written again."""
        known = self.state.files.get(file, FileState())
        start = known.lines
        # From the end, where nearly always nothing is cut: a long turn has thousands of pieces.
        for piece, count in zip(reversed(known.pieces), reversed(known.counts), strict=True):
            if start <= position:
                break
            start -= count
            if start <= position:
                return start, (await self._lines(piece))[: position - start]
        return position, ()

    async def mirrored(self) -> Mapping[str, Sequence[str]]:
        return await read_files(self.state.files, self._lines)

    async def _lines(self, piece: Payload) -> Sequence[str]:
        return msgspec.json.decode(await self._context.text(piece), type=list[str])

    def _turns(self) -> list[TurnState]:
        return [self.turn] if self.state.cut is None else [self.turn, self.state.cut]

    async def settle(self, call: int, result: ToolResult) -> None:
        await self.calls.settle(self.turn.calls[call], result)

    async def arguments(self, call: int) -> Mapping[str, Any]:
        return await self._context.value(self.turn.calls[call].intent.arguments)

    async def look(self, what: Look, path: str, *, lane: str) -> Any:
        site = self._context.files.site
        return await self.calls.waits.seen(
            f"{what} {path}", lambda: look(site.files, what, path, self._context.fail), lane
        )

    async def read_document(self, name: str, *, lane: str) -> Document:
        return await self.calls.documents.read(name, lane)

    async def edit_document(self, wish: Wish, *, lane: str) -> Document:
        return await self.calls.documents.edit(wish, lane)

    async def outcome(self, call: int) -> ToolResult:
        (found,) = [turn.calls[call] for turn in self._turns() if call in turn.calls]
        return await self.calls.told.of(found)

    async def answers(self) -> Mapping[int, Mapping[str, Any]]:
        return {
            number: await self._context.value(state.outcome.result)
            for turn in self._turns()
            for number, state in turn.calls.items()
            if state.intent.kind == "model" and state.outcome is not None and state.outcome.status == "ok"
        }

    async def requests(self) -> Mapping[str, Sequence[Any]]:
        newest: dict[str, ModelRequest] = {}
        for state in self.turn.calls.values():
            request = request_of(state.intent)
            if request is not None:
                newest[state.intent.lane] = request
        return {
            lane: (await read_messages(request, self._context.blobs))[1] for lane, request in newest.items()
        }

    async def talk(self) -> Talk | None:
        known = self.state.talk
        if known is None:
            return None
        request = msgspec.json.decode(await self._context.text(known.request), type=ModelRequest)
        _, messages = await read_messages(request, self._context.blobs)
        ended = [(call.intent.harness_id, await self._ended(call)) for call in known.tools]
        return Talk(
            messages,
            await self._context.value(known.answer),
            [told for _, told in ended],
            {harness_id: told[2] for harness_id, told in ended if harness_id},
        )

    async def _ended(self, call: CallState) -> tuple[str, Mapping[str, Any], ToolResult]:
        intent, outcome = call.intent, call.outcome
        assert outcome is not None  # a settled turn leaves no call open
        result = read_result(outcome, await self._context.value(outcome.result))
        return intent.name, await self._context.value(intent.arguments), result
