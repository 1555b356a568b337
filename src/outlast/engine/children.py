"""Sessions that a loop spawns: named after the call, opened by it, waited for until they report.

Invariants:

* A child's id comes from its call: the same in every attempt, and no other call's of any session.
* What opens it stands in the intent, which is durable before anybody opens it. Whoever opens it again changes nothing.
* Only the child's own report ends the call well: it names both, and no signal, decision or other input is one.
* A call that ends otherwise leaves a recall behind, in the same commit (`outlast.engine.errands`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from outlast.calls import SpawnAsk, ToolResult
from outlast.codec import Packer, encode_input, encode_records
from outlast.engine.batch import patiently
from outlast.engine.context import Context
from outlast.engine.index import CallIndex
from outlast.engine.waits import Waits
from outlast.engine.walk import Walk
from outlast.errors import BadInput, SessionErased, SessionExists, TurnStopped
from outlast.fold import CallState, SessionState, records_of
from outlast.gate import Point
from outlast.ids import derived_id, digest
from outlast.records import (
    PLAIN,
    AnyRecord,
    CallIntent,
    CallOutcome,
    CallStarted,
    ErrandDue,
    Parent,
    Prompt,
    Recall,
    Report,
    SessionOpened,
)
from outlast.tracing import TurnIds
from outlast.world import Header, Input, World
from outlast.world.commit import make_commit

SPAWN = "spawn"
"""The name of such calls, and what their points are crossed with."""
PREFIX_LIMIT = 90
"""Characters of the parent's id that a child's begins with."""
DEPTH_LIMIT = 32
"""How many sessions may stand above one: an agent that spawns its like for ever must end somewhere."""


class Opening(msgspec.Struct, frozen=True, omit_defaults=True):
    """What opens a child. It stands in logs: fields are only ever added, with a default."""

    opened: SessionOpened
    placement: str = "any"
    traceparent: str = ""
    """Of the call that spawns it."""

    @classmethod
    def read(cls, text: bytes) -> Self:
        return msgspec.json.decode(text, type=cls)


class Children:
    """The spawns of one attempt (`outlast.adapter.Calls` says what is promised)."""

    def __init__(self, context: Context, index: CallIndex, walk: Walk, waits: Waits) -> None:
        self._context = context
        self._index = index
        self._walk = walk
        self._waits = waits

    async def spawn(self, ask: SpawnAsk, lane: str, pausing: Callable[[int], None]) -> ToolResult:
        about = about_of(ask)
        _check(ask, self._context.writer.state)
        state = await self._walk.step(lane, "wait", SPAWN, about)
        if state is None:
            state = await self._intend(ask, about, lane)
        if state.open and not state.started:
            await self._send_out(state)
        return await self._waits.until(state, pausing)

    async def _intend(self, ask: SpawnAsk, about: Mapping[str, Any], lane: str) -> CallState:
        context, writer, turn = self._context, self._context.writer, self._context.turn
        await context.afford()
        await context.gate.cross(Point.BEFORE_INTENT, policy=SPAWN)
        if context.stopping is not None:
            raise TurnStopped(context.stopping)
        packer, number, now_s = writer.packer(), writer.state.next_call, context.clock.now()
        opening = opening_of(ask, writer.state, context.key_of(number), turn.turn, now_s)
        opening = msgspec.structs.replace(opening, traceparent=self._traceparent(number))
        intent = CallIntent(
            call=number,
            turn=turn.turn,
            lane=lane,
            ordinal=turn.ordinals.get(f"wait/{lane}", 0),
            kind="wait",
            name=SPAWN,
            arguments=packer.payload(dict(about), what="what is spawned"),
            policy="safe",
            until_s=0.0 if ask.for_s is None else now_s + max(0.0, ask.for_s),
            at_s=now_s,
            child=opening.opened.session,
            opens=packer.text(msgspec.json.encode(opening)),
        )
        landed = context.append(intent, packer=packer)
        state = turn.calls[number]
        self._index.make(state)
        await writer.durable(landed)
        await context.gate.cross(Point.AFTER_INTENT, call=number, policy=SPAWN)
        return state

    def _traceparent(self, call: int) -> str:
        """What the child's turn stands beneath: its spans and ours are one trace, if anybody makes them."""
        context, opened = self._context, self._context.writer.state.opened
        folder = "" if opened is None else opened.folder
        turn, fence = context.turn, context.writer.lease.fence
        ids = TurnIds(context.world.tenant, folder, context.session, turn.turn, turn.traceparent)
        return ids.within(ids.call(call, fence)).write()

    async def _send_out(self, state: CallState) -> None:
        """Open the child and ask it. Once the log says so, no later attempt does it again."""
        context, intent = self._context, state.intent
        opening = Opening.read(await context.text(intent.opens))
        asked = await context.value(intent.arguments)
        await context.gate.cross(Point.IN_EFFECT, call=intent.call, policy=SPAWN)
        context.check()
        try:
            await patiently(lambda: create(context.world, opening))
            await context.gate.cross(Point.CHILD_OPENED, call=intent.call, policy=SPAWN)
            context.check()
            await patiently(lambda: ask_child(context.world, opening, str(asked["prompt"])))
        except (SessionExists, SessionErased) as error:
            await self._waits.settle(state, "error", {"status": "failed", "error": str(error)}, "")
            return
        await context.gate.cross(Point.AFTER_EFFECT, call=intent.call, policy=SPAWN)
        if state.open:  # it may have reported meanwhile
            context.append(CallStarted(intent.call, intent.turn, intent.lane, context.clock.now()), lazy=True)


def _check(ask: SpawnAsk, state: SessionState) -> None:
    """What cannot be spawned is refused before anything is written, and so in every attempt.

    Raises:
        BadInput
    """
    encode_input(Prompt(ask.prompt))
    if not ask.agent:
        raise BadInput(detail="A session is spawned for an agent: give its name, or the agent.")
    parent = None if state.opened is None else state.opened.parent
    if parent is not None and parent.depth >= DEPTH_LIMIT:
        raise BadInput(
            detail=f"{state.session} is the {DEPTH_LIMIT}th in a line that spawned one another. It spawns none: let "
            "its loop end, or let one above it do the work."
        )


def about_of(ask: SpawnAsk) -> Mapping[str, Any]:
    """What tells one spawn from another. Settings of the agent's own may be others after a deployment."""
    about: dict[str, Any] = {"agent": ask.agent, "prompt": ask.prompt}
    if ask.given:
        about["settings"] = dict(ask.given)
    return about if ask.for_s is None else {**about, "for_s": ask.for_s}


def opening_of(ask: SpawnAsk, state: SessionState, key: str, turn: int, now_s: float) -> Opening:
    """What opens the child of the next call, whose key is `key`."""
    number, opened = state.next_call, state.opened
    folder = "" if opened is None else opened.folder
    depth = 1 if opened is None or opened.parent is None else opened.parent.depth + 1
    seed = (folder.encode(), key.encode())
    child = derived_id(f"{state.session[:PREFIX_LIMIT]}.{number}", *seed)
    return Opening(
        SessionOpened(
            session=child,
            agent=ask.agent,
            adapter=ask.adapter,
            settings=dict(ask.settings),
            workspace=dict(ask.workspace),
            cwd=ask.cwd,
            at_s=now_s,
            documents=dict(ask.documents),
            folder=derived_id(child, b"folder", *seed),
            parent=Parent(state.session, turn, number, derived_id(SPAWN, b"prompt", *seed), depth),
        ),
        ask.placement,
    )


async def send_out(world: World, opening: Opening, prompt: str) -> None:
    """Open a child and ask it; who does both again changes nothing.

    Raises:
        SessionExists: its id is another's.
        SessionErased
    """
    await create(world, opening)
    await ask_child(world, opening, prompt)


async def create(world: World, opening: Opening) -> None:
    """Open a child, unless somebody did."""
    opened = opening.opened
    first = make_commit(Header(1, 0, PLAIN, 1, status="new"), encode_records([opened]))
    try:
        await world.create(opened.session, first, agent=opened.agent, placement=opening.placement)
    except SessionExists:
        # A newer outlast may write the same opening in another format.
        (commit,) = await world.commits(opened.session, 0, 1)
        match records_of(opened.session, commit):
            case [SessionOpened(parent=parent), *_] if parent == opened.parent:
                return
            case _:
                raise


async def ask_child(world: World, opening: Opening, prompt: str) -> None:
    """Put the prompt of the spawn into the inbox of the child."""
    opened = opening.opened
    assert opened.parent is not None
    marks = digest(b"Prompt", prompt.encode())
    words = Prompt(prompt, opened.at_s, traceparent=opening.traceparent)
    asked = Input(opened.parent.prompt, marks, encode_input(words))
    await world.put_input(opened.session, asked)


def report_of(due: ErrandDue, child: str, value: object) -> Report:
    """What a parent is told: the same from every worker that tells it."""
    return Report(due.call, child, due.status, value, due.error, due.usage, due.at_s)


def recall_of(opening: Opening, at_s: float) -> Recall:
    """What a child is told that nobody waits for."""
    assert opening.opened.parent is not None
    return Recall(opening.opened.parent.prompt, at_s)


def input_of(value: Report | Recall, body: bytes) -> Input:
    """It under an id that no other has."""
    match value:
        case Report():
            name = f"report-{value.call}-{value.child}"
        case Recall():
            name = f"recall-{value.prompt}"
    return Input(name, digest(body), body)


def reported(state: SessionState, word: Report, packer: Packer, now_s: float) -> Sequence[AnyRecord] | str:
    """The end of the call that waits for this report, or why there is none."""
    turn = state.turn
    call = None if turn is None else turn.calls.get(word.call)
    if call is None or not call.open or not word.child or call.intent.child != word.child:
        return f"no open call waits for {word.child}"
    intent, done = call.intent, word.status == "done"
    value = word.value if done else {"status": word.status, "error": word.error}
    outcome = CallOutcome(
        intent.call,
        intent.turn,
        "ok" if done else "error",
        packer.payload(value, what="the result of the spawned session"),
        intent.lane,
        word.usage,
        round(max(0.0, now_s - intent.at_s), 4),
        now_s,
    )
    return [outcome]


async def forsake(world: World, opened: SessionOpened, at_s: float) -> None:
    """Tell the parent of a session that is about to be erased: it must not wait for it for ever.

    Raises:
        SessionUnknown, SessionErased, InputConflict: the parent is gone, or knows already how it ended.
    """
    if opened.parent is not None:
        error = f"The session {opened.session} was erased."
        word = Report(opened.parent.call, opened.session, "failed", error=error, sent_at_s=at_s)
        await world.put_input(opened.parent.session, input_of(word, encode_input(word)))
