"""Carries out the recovery plan, as far as it concerns what the worker itself runs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

from outlast.adapter import ToolResult
from outlast.engine.attempt import EngineAttempt
from outlast.engine.context import Context
from outlast.engine.effects import as_unicode, ask_verify, result_of
from outlast.engine.hands import Hands
from outlast.engine.scene import asked
from outlast.engine.stopping import STUBBORN, stop
from outlast.errors import HarnessError
from outlast.fold import CallState
from outlast.gate import Point
from outlast.inquiry import Answer, Partly, Witness
from outlast.records import EMPTY, CallIntent, CallRetracted, Verdict
from outlast.recovery import (
    IN_DOUBT,
    AskAgain,
    Compensate,
    Declare,
    Declared,
    Doubt,
    Found,
    Interrupt,
    Run,
    Step,
    Verify,
    compensation_of,
    doubt_of,
    doubt_text,
    plan,
)
from outlast.tool import Done, NotDone, Tool, Unsure, result_text

T = TypeVar("T")
Question: TypeAlias = Callable[[Hands], Awaitable[Answer]]
"""Asks whether a call took effect, with what a try of it holds."""

UNDONE: Final = (
    "This call was cut off, and nothing of it is left in the workspace: the sandbox was made anew, with the files as "
    "they were before the call. Call it again if it is still wanted."
)
FILES_BACK: Final = (
    "The files of the workspace are as they were before the call: the sandbox was made anew. What the call sent to "
    "hosts that it may reach stands, if it came to that."
)
SAID_LIMIT: Final = 2_000
"""Characters of a compensation's result that the model reads beside what it compensated."""


async def recover(attempt: EngineAttempt, context: Context) -> None:
    """Settle every open call that can be settled here; what the harness must do stays in `attempt.plan`."""
    await context.gate.cross(Point.FOLDED)
    await attempt.calls.told.recall()
    await context.fetched([state.intent for state in context.turn.open_calls() if _is_tool_of_it(state)])
    await _say_undone(attempt, context)
    await _all([_take_up(state, attempt) for state in context.turn.open_calls()])
    await attempt.calls.shells.end_others()
    can, declare = context.adapter.abilities, _declare(context)
    found = await _inquire(plan(context.turn, declare, can, context.clock.now()), attempt, context)
    steps = plan(context.turn, declare, can, context.clock.now(), found)
    _retract(steps, context)
    if any(isinstance(step, AskAgain) for step in steps):
        await context.gate.cross(Point.RETRACTED)
    within = [step.own if isinstance(step, Compensate) else step for step in steps]
    attempt.calls.may_run.update(step.call for step in within if isinstance(step, Run))
    ours = [step for step in steps if not isinstance(step, AskAgain) and not _is_the_harness_s(step, context)]
    attempt.plan = [step for step in steps if _is_the_harness_s(step, context)]
    asked = await _all([_settle(step, attempt, context) for step in ours])
    if any(asked):
        await _park(context, [call for call in asked if call])


async def _say_undone(attempt: EngineAttempt, context: Context) -> None:
    """End what the harness had begun, where it is sure that nothing is left of it; a person's word comes first."""
    undone = context.files.undone
    for state in context.turn.open_calls():
        intent = state.intent
        cut_off = _is_tool_of_it(state) and state.begun
        if not cut_off or intent.policy == "safe" or state.decided is not None:
            continue
        if undone == "all" or (undone == "files" and _is_in_files(state, context)):
            await attempt.calls.settle(state, ToolResult("interrupted", UNDONE))


async def _take_up(state: CallState, attempt: EngineAttempt) -> int:
    """End what the harness had begun by a command that has outlived it, as that ends; a person's word comes first."""
    calls = attempt.calls
    if not _is_tool_of_it(state) or not state.begun or state.decided is not None:
        return 0
    result = await calls.shells.take_up(
        state, lambda text: calls.show(state.intent.call, "output", text), calls.told.of
    )
    if result is not None:
        await calls.settle(state, result)
    return 0


def _is_tool_of_it(state: CallState) -> bool:
    """Whether it is a tool call of the harness's."""
    return state.intent.kind == "tool" and state.intent.runs_in == "harness"


async def _inquire(steps: Sequence[Step], attempt: EngineAttempt, context: Context) -> Found:
    """Ask about those calls of the harness's that can be. Those that took effect are settled; what is left is found."""
    calls = [step.call for step in steps if isinstance(step, Verify)]
    states = [context.turn.calls[call] for call in calls]
    theirs = [state for state in states if state.intent.runs_in == "harness"]
    verdicts = await _all([_ask(state, attempt, context) for state in theirs])
    return {
        state.intent.call: "not_done" if isinstance(verdict, NotDone) else "unsure"
        for state, verdict in zip(theirs, verdicts, strict=True)
        if not isinstance(verdict, Done | Partly)
    }


async def _ask(state: CallState, attempt: EngineAttempt, context: Context) -> Answer:
    """Ask whether an open call took effect, and settle it if it did, in whole or in a part that is known."""
    intent = state.intent
    question = await _question(state, context)
    if question is None:
        return Unsure()
    await context.gate.cross(Point.BEFORE_VERIFY, call=intent.call, policy="verify")
    context.check()
    with attempt.calls.hands(state) as hands:
        verdict = await question(hands)
        context.check()
        await context.write(_record(verdict, intent))
        await context.gate.cross(Point.AFTER_VERDICT, call=intent.call, policy="verify")
        if isinstance(verdict, Done):
            await attempt.calls.settle(state, result_of(intent.name, verdict.result), hands)
        if isinstance(verdict, Partly):
            await attempt.calls.settle(state, ToolResult("interrupted", as_unicode(verdict.said)), hands)
    return verdict


async def _question(state: CallState, context: Context) -> Question | None:
    """How to ask about a call; None where nobody could tell."""
    intent, tool, scene = state.intent, context.tool_of(state.intent), context.scene
    if intent.runs_in == "worker" or (tool is not None and tool.verify is not None):
        if tool is None:
            return None
        arguments = await context.value(intent.arguments)
        return lambda hands: ask_verify(tool, hands.io, arguments)
    inquiry, witness = context.means(intent).inquiry, await context.value(state.witness)
    if inquiry is None or scene is None or not isinstance(witness, dict):
        return None
    return lambda _: asked(inquiry, scene, cast("Witness", witness))


def _is_in_files(state: CallState, context: Context) -> bool:
    """Whether a call of the harness's can have reached nothing but files of the workspace: a witness is of those."""
    inquiry = context.means(state.intent).inquiry
    return inquiry is not None and inquiry.files_only and state.witness != EMPTY


def _declare(context: Context) -> Declare:
    def declare(intent: CallIntent) -> Declared | None:
        if intent.runs_in == "worker":
            return _declared(context.tool_of(intent))
        means = context.means(intent)
        undo = None if means.verifier is None else means.verifier.compensate
        name = "" if undo is None else undo.name
        return Declared(means.policy, means.on_doubt, means.key_ttl_s, name, means.unasked)

    return declare


def _declared(tool: Tool | None) -> Declared | None:
    if tool is None:
        return None
    compensate = "" if tool.compensate is None else tool.compensate.name
    return Declared(tool.policy, tool.on_doubt, tool.key_ttl_s, compensate)


def _is_the_harness_s(step: Step, context: Context) -> bool:
    return isinstance(step, Run) and context.turn.calls[step.call].intent.runs_in == "harness"


def _retract(steps: Sequence[Step], context: Context) -> None:
    """Tell watchers to drop what open model calls have shown."""
    for step in steps:
        if isinstance(step, AskAgain):
            lane = context.turn.calls[step.call].intent.lane
            context.append(CallRetracted(step.call, context.turn.turn, lane, "asked again after a take-over"))


async def _all(jobs: Sequence[Coroutine[Any, Any, T]]) -> Sequence[T]:
    """Do all at once. When one fails or this is cancelled, none is left behind."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(job) for job in jobs]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        ended = await stop(tasks)
    if not ended:
        raise HarnessError(harness="a `verify` function", reason=STUBBORN)
    failures = [task.exception() for task in tasks if not task.cancelled()]
    for failure in failures:
        if failure is not None:
            raise failure
    return [task.result() for task in tasks]


async def _settle(step: Step, attempt: EngineAttempt, context: Context) -> int:
    """Do one step. Returns the call when a person must decide about it, else 0."""
    state = context.turn.calls[step.call]
    match step:
        case Run():
            await attempt.calls.finish(state)
        case Verify():
            return await _verify(step, attempt, context)
        case Doubt():
            return await _doubt(step, attempt, context)
        case Compensate():
            return await _compensate(step, attempt, context)
        case Interrupt(text=text):
            await attempt.calls.settle(state, ToolResult("interrupted", text))
        case AskAgain():
            pass
    return 0


async def _verify(step: Verify, attempt: EngineAttempt, context: Context) -> int:
    state = context.turn.calls[step.call]
    match await _ask(state, attempt, context):
        case Done() | Partly():
            return 0
        case NotDone():
            attempt.calls.may_run.add(step.call)
            await attempt.calls.finish(state)
            return 0
        case Unsure():
            return await _settle(doubt_of(step.call, step.on_doubt, step.compensate), attempt, context)


def _record(verdict: Answer, intent: CallIntent) -> Verdict:
    match verdict:
        case Done():
            return Verdict(intent.call, intent.turn, "done", lane=intent.lane)
        case NotDone():
            return Verdict(intent.call, intent.turn, "not_done", lane=intent.lane)
        case Unsure(note=note) | Partly(said=note):
            return Verdict(intent.call, intent.turn, "unsure", as_unicode(note), intent.lane)


async def _doubt(step: Doubt, attempt: EngineAttempt, context: Context) -> int:
    call = step.call
    if step.on_doubt == "ask":
        return call
    await _settle_in_doubt(call, attempt, context)
    return 0


async def _settle_in_doubt(call: int, attempt: EngineAttempt, context: Context) -> None:
    """End a call of which nobody knows whether it took effect; the model is told what was done about it."""
    compensation = compensation_of(context.turn, call)
    said = ""
    if compensation is not None and compensation.outcome is not None:
        value = await context.value(compensation.outcome.result)
        said = as_unicode(result_text(value), limit=SAID_LIMIT)
    state = context.turn.calls[call]
    text = doubt_text(compensation, said, _doubtful(state, context))
    await attempt.calls.settle(state, ToolResult("in_doubt", text))
    await context.gate.cross(Point.DOUBT_SETTLED, call=call, policy=state.intent.policy)


def _doubtful(state: CallState, context: Context) -> str:
    """What is said of a call in doubt; of one that the workspace was asked about, with what that showed."""
    verdict, words = state.verdict, [IN_DOUBT]
    if context.files.undone == "files" and _is_tool_of_it(state):
        words.append(FILES_BACK)
    if verdict is not None and verdict.verdict == "unsure" and verdict.note and state.witness != EMPTY:
        words.append(verdict.note)
    return " ".join(words)


async def _compensate(step: Compensate, attempt: EngineAttempt, context: Context) -> int:
    """Make a call good by another, whose end decides about it."""
    by, own = step.by, step.own
    if not by:
        by = await _intend(context.turn.calls[step.call], context)
        own = Run(by, again=False)
    asked = 0 if own is None else await _settle(own, attempt, context)
    if asked:  # the compensation itself is in doubt, and a person is to decide about that
        return asked
    outcome = context.turn.calls[by].outcome
    if outcome is None or outcome.status != "ok":
        return await _doubt(Doubt(step.call, step.on_doubt, step.compensate), attempt, context)
    await _settle_in_doubt(step.call, attempt, context)
    return 0


async def _intend(state: CallState, context: Context) -> int:
    """Write the intent of a compensation: durable, since from then on nothing else is done about the call."""
    made_good, intent = context.tool_of(state.intent), state.intent
    tool = None if made_good is None else made_good.compensate
    assert made_good is not None  # the plan has just found both
    assert tool is not None
    arguments = made_good.undone_with(await context.value(intent.arguments))
    await context.gate.cross(Point.BEFORE_INTENT, call=intent.call, policy=tool.policy)
    context.check()
    packer, now_s = context.writer.packer(), context.clock.now()
    number, lane = context.writer.state.next_call, f"undo{intent.call}"
    own = CallIntent(
        call=number,
        turn=intent.turn,
        lane=lane,
        ordinal=context.turn.ordinals.get(f"tool/{lane}", 0),
        kind="tool",
        name=tool.name,
        arguments=packer.payload(dict(arguments), what=f"the arguments of {tool.name}"),
        policy=tool.policy,
        on_doubt=tool.on_doubt,
        key=context.key_of(number),
        key_until_s=now_s + tool.key_ttl_s if tool.key_ttl_s else 0.0,
        granted=True,
        at_s=now_s,
        compensates=intent.call,
    )
    landed = context.append(own, packer=packer)
    await context.writer.durable(landed)
    await context.gate.cross(Point.AFTER_INTENT, call=number, policy=tool.policy)
    return number


async def _park(context: Context, calls: Sequence[int]) -> None:
    tools = {call: context.tool_of(context.turn.calls[call].intent) for call in calls}
    choices = {
        str(call): tool.compensate.name
        for call, tool in tools.items()
        if tool is not None and tool.compensate is not None
    }
    evidence = {"in_doubt": list(calls), **({"compensate": choices} if choices else {})}
    context.park("decision", evidence)
