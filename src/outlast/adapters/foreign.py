"""What the loop of a framework does through its own seams: model calls in the framework's JSON, tools by its call ids.

A framework asks its models and runs its tools itself. What it asks and what it is answered stand in the log as it has
them; whoever wraps it knows nothing of logs, and says with each answer which tool calls the framework is about to run.
These are written down in the commit of the answer, so each is known by the id that model and framework use for it,
whatever order they run in.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from outlast.adapter import Attempt, Deny, ModelAsk, Resolved, ToolAsk, ToolResult
from outlast.adapters.endings import refusal_of, said_by
from outlast.adapters.lanes import Board
from outlast.calls import Joined, Parked, Send, Served
from outlast.codec import canonical, to_json
from outlast.errors import BadInput, BadPayload, ModelCallFailed, ModelCallRejected, TurnStopped
from outlast.gate import Point
from outlast.ids import digest
from outlast.model import PieceKind, billed
from outlast.records import Usage
from outlast.records.kinds import OnDoubt, Policy
from outlast.tool import Tool, VerifyFunction, tool

if TYPE_CHECKING:  # it imports this module
    from outlast.adapters.io import IO

NOT_RUN: Final = "The framework did not run this call."
GIVEN_UP: Final = (
    "The framework gave this call up while it ran. It may have taken effect, in full or in part. "
    "Check before you rely on it."
)
_UNASKED: Final = (
    "{name} was called as {id!r}, which no model of this turn has asked for. Tools of a framework run durably only as "
    "its models call them."
)


@dataclass(frozen=True, slots=True)
class ForeignRequest:
    """A model request as a framework has it, all of it JSON and the same in every attempt: no times, no random names.

    What is hashed and compared at recovery is this.
    """

    model: str
    messages: Sequence[Any]
    """The conversation so far, in order; each message is stored once, however many requests it stands in."""
    frame: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Everything else: instructions, tools, settings."""

    @property
    def match(self) -> str:
        """Two requests with the same are the same request."""
        return digest(self.model.encode(), canonical(dict(self.frame)), canonical(list(self.messages)))


@dataclass(frozen=True, slots=True)
class ForeignAnswer:
    """A model's answer as a framework has it."""

    value: Mapping[str, Any]
    """JSON, whole: the framework goes on from what the log gives back of it."""
    asks: Sequence[ToolAsk] = ()
    """The tool calls in it that the framework will run, under the ids by which it will."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class ForeignCall:
    """What a framework's tool may want to know of the call that it runs for."""

    io: "IO"
    """A lane of its own, for what the tool does through a framework again. What is called here is read from the log
    when the call runs once more, which only one that is `safe` does."""
    key: str
    """The same text in every attempt at this call, and no other's: an idempotency key for outside systems."""
    call: int
    """Number of the call in the session."""
    attempt: int
    """Fence of the attempt: grows with every take-over."""
    show: Callable[[str], None]
    """Shows output to watchers while the tool runs."""

    @property
    def session(self) -> str:
        """Id of the session."""
        return self.io.session

    @property
    def turn(self) -> int:
        """Number of the turn in the session."""
        return self.io.turn


_THIS_CALL: Final[ContextVar[ForeignCall]] = ContextVar("outlast.foreign.call")


def this_call() -> ForeignCall:
    """The call that runs this tool of a framework's: for the tool itself, which the framework gives no `io`.

    Raises:
        LookupError: it is no such tool that asks, or one that does not run durably.
    """
    return _THIS_CALL.get()


class Heard:
    """Where an answer goes while it comes: a `Show`, and told of each piece of the stream that was heard."""

    def __init__(self, attempt: Attempt, board: Board, call: int) -> None:
        self._attempt = attempt
        self._board = board
        self._call = call
        self._begun = False

    def __call__(self, kind: PieceKind, piece: str) -> None:
        """Show a piece to watchers."""
        self._attempt.calls.show(self._call, kind, piece)

    def own_id(self, asked: str) -> str:
        """The id of a tool call in the answer, or another in its place where a call of the turn has it already.

        Ask once for each call that the framework will run, and put what this returns into the answer: some models
        number their calls anew in each answer.
        """
        own, more = asked, 0
        while own in self._board.ids or self._attempt.calls.intent_of(own) is not None:
            own = f"{asked}-{self._call}-{more}" if more else f"{asked}-{self._call}"
            more += 1
        self._board.ids.add(own)
        return own

    async def heard(self) -> None:
        """Something came: the provider answers. Await it between pieces where that is possible."""
        if not self._begun:
            self._begun = True
            await self._attempt.gate.cross(Point.IN_EFFECT, call=self._call, policy="model")


SendForeign: TypeAlias = Callable[[Heard], Awaitable[ForeignAnswer]]
"""Asks the provider once, and shows what comes. Raises what `outlast.model.Model.ask` does."""
RunForeign: TypeAlias = Callable[[ForeignCall], Awaitable[ToolResult]]
"""Runs the framework's tool. What it raises ends the call as an error and is raised; so an error that the framework
acts on must be a result, which reads the same in every attempt."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What recovery may do about the calls of a framework's tool: what `outlast.tool` says of one of ours."""

    policy: Policy = "never"
    verify: VerifyFunction | None = None
    """Takes `io` and the tool's arguments, by name and with annotations; implies the policy `verify`."""
    on_doubt: OnDoubt = "tell"
    key_ttl_s: float = 0.0
    compensate: Tool | None = None


def promised(name: str, said: Replay | Policy) -> Resolved:
    """What a call of a framework's tool means.

    Raises:
        BadTool: what is said of it does not fit together.
    """
    said = Replay(said) if isinstance(said, str) else said
    stand_in = said.verify or (None if said.compensate is None else said.compensate.function)
    if stand_in is None:
        return Resolved(name, "harness", said.policy, said.on_doubt, said.key_ttl_s)
    # Never called: it carries what can be asked about a call, and who makes it good.
    verifier = tool(
        replay=said.policy,
        verify=said.verify,
        on_doubt=said.on_doubt,
        key_ttl_s=said.key_ttl_s,
        name=name,
        compensate=said.compensate,
    )(stand_in)
    return Resolved(name, "harness", verifier.policy, said.on_doubt, said.key_ttl_s, verifier=verifier)


async def ask_foreign(
    attempt: Attempt, board: Board, lane: str, request: ForeignRequest, send: SendForeign
) -> Mapping[str, Any]:
    """The answer to a request of a lane's: from the log, or asked for now."""
    ask = ModelAsk(lane, request.model, request.match, request.frame, request.messages, placed=True)
    opening = await attempt.calls.open_model(ask)
    match opening:
        case Served(call=call):
            await _settle_left(attempt, lane, call)
            if opening.refused:
                raise refusal_of(opening.answer)
            return opening.answer
        case Send(call=call):
            await _settle_left(attempt, lane, call)
            return await _send(attempt, board, call, send)
        case Parked(why=why):
            raise TurnStopped(why)
        case Joined():
            raise BadInput(detail="a lane makes one model call at a time")


async def _settle_left(attempt: Attempt, lane: str, before: int) -> None:
    """End what earlier answers of the lane asked for and the framework has passed over: it asks on without it."""
    for state in attempt.turn.open_calls():
        intent = state.intent
        asked = intent.granted and intent.kind == "tool" and intent.asked_by and intent.asked_by < before
        if asked and intent.lane == lane and not state.begun:
            await attempt.settle(intent.call, ToolResult("interrupted", NOT_RUN))


async def _send(attempt: Attempt, board: Board, call: int, send: SendForeign) -> Mapping[str, Any]:
    calls = attempt.calls
    await attempt.gate.cross(Point.IN_EFFECT, call=call, policy="model")
    try:
        answer = await send(Heard(attempt, board, call))
        value = msgspec.json.decode(to_json(dict(answer.value), what="the model's answer"))
    except ModelCallFailed as error:
        await calls.void_model(call, str(error), billed(error), retry_after_s=error.retry_after_s)
        board.fail(error)
        await board.stand_still()
    except (ModelCallRejected, BadInput) as error:
        refusal = {"is": type(error).__name__, "facts": error.facts}
        cost = billed(error) if isinstance(error, ModelCallRejected) else None
        await calls.refuse_model(call, refusal, cost)
        raise refusal_of(refusal) from error
    except Exception as error:
        # A fault of the framework's, which it is told; nobody is being asked any more.
        await calls.void_model(call, said_by(error))
        raise
    await attempt.gate.cross(Point.AFTER_EFFECT, call=call, policy="model")
    # What it asked for and nobody can begin is no call: an id is needed to find it by.
    await calls.settle_model(call, value, [ask for ask in answer.asks if ask.harness_id], answer.usage)
    await attempt.gate.cross(Point.DELIVERED, call=call, policy="model")
    return value


async def run_foreign(attempt: Attempt, io: "IO", board: Board, ask: ToolAsk, run: RunForeign) -> ToolResult:
    """How a tool call of a framework's ends: from the log, or run now.

    Args:
        io: the lane of the call itself.
    """
    calls = attempt.calls
    intent = calls.intent_of(ask.harness_id)
    if intent is None:
        raise BadInput(detail=_UNASKED.format(name=ask.name, id=ask.harness_id))
    if intent.runs_in == "worker":
        return await calls.run_tool(ask.name, ask.arguments, harness_id=ask.harness_id)
    verdict = await calls.start_tool(ask.harness_id, ask.name, ask.arguments)
    if isinstance(verdict, Deny):
        calls.pass_by(io.lane)
        return await attempt.outcome(intent.call) if verdict.settled else ToolResult("error", verdict.text)
    await attempt.gate.cross(Point.IN_EFFECT, call=intent.call, policy=intent.policy)
    own = ForeignCall(
        io, intent.key, intent.call, attempt.fence, lambda text: calls.show(intent.call, "output", text)
    )
    token = _THIS_CALL.set(own)
    try:
        result = _as_logged(ask.name, await run(own))
    except Exception as error:
        await calls.settle_tool(ask.harness_id, ToolResult("error", said_by(error)))
        raise
    except BaseException:
        # Whoever gave it up goes on; but where the attempt itself ends, the call is open, and recovery decides.
        if not board.closed and board.failure is None and not attempt.calls.ending:
            await calls.settle_tool(ask.harness_id, ToolResult("in_doubt", GIVEN_UP))
        raise
    finally:
        _THIS_CALL.reset(token)
    await attempt.gate.cross(Point.AFTER_EFFECT, call=intent.call, policy=intent.policy)
    calls.pass_by(io.lane)
    await calls.settle_tool(ask.harness_id, result)
    await attempt.gate.cross(Point.DELIVERED, call=intent.call, policy=intent.policy)
    return result


def _as_logged(name: str, result: ToolResult) -> ToolResult:
    """The result as the log gives it back, so that it reads the same the first time and ever after."""
    try:
        text = to_json(result.value, what=f"the result of {name}")
    except BadPayload as error:
        return ToolResult("error", f"{name} ran to its end, but its result is lost. {error}")
    return replace(result, value=msgspec.json.decode(text))
