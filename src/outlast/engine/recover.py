"""Carries out the recovery plan, as far as it concerns what the worker itself runs."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from outlast.adapter import ToolResult
from outlast.engine.attempt import EngineAttempt
from outlast.engine.context import Context
from outlast.engine.documents import CallDocs
from outlast.engine.effects import ask_verify, result_of
from outlast.errors import TurnStopped
from outlast.gate import Point
from outlast.records import CallIntent, CallRetracted, TurnParked, Verdict
from outlast.records.kinds import OnDoubt
from outlast.recovery import IN_DOUBT, AskAgain, Declare, Declared, Doubt, Interrupt, Run, Step, Verify, plan
from outlast.tool import Done, NotDone, Unsure


async def recover(attempt: EngineAttempt, context: Context) -> None:
    """Settle every open call that can be settled here; what the harness must do stays in `attempt.plan`."""
    steps = plan(context.turn, _declare(context), context.adapter.abilities, context.clock.now())
    await context.gate.cross(Point.FOLDED)
    await attempt.calls.recall()
    _retract(steps, context)
    if any(isinstance(step, AskAgain) for step in steps):
        await context.gate.cross(Point.RETRACTED)
    attempt.calls.may_run.update(step.call for step in steps if isinstance(step, Run))
    ours = [step for step in steps if not isinstance(step, AskAgain) and not _is_the_harness_s(step, context)]
    attempt.plan = [step for step in steps if _is_the_harness_s(step, context)]
    asked = await _all([_settle(step, attempt, context) for step in ours])
    if any(asked):
        await _park(context, [call for call in asked if call])


def _declare(context: Context) -> Declare:
    def declare(intent: CallIntent) -> Declared | None:
        if intent.runs_in == "worker":
            tool = context.tools.get(intent.name)
            return None if tool is None else Declared(tool.policy, tool.on_doubt, tool.key_ttl_s)
        means = context.resolve(intent.name, intent.arguments.value() if not intent.arguments.ref else {})
        return Declared(means.policy, means.on_doubt, means.key_ttl_s)

    return declare


def _is_the_harness_s(step: Step, context: Context) -> bool:
    return isinstance(step, Run) and context.turn.calls[step.call].intent.runs_in == "harness"


def _retract(steps: Sequence[Step], context: Context) -> None:
    """Tell watchers to drop what open model calls have shown."""
    for step in steps:
        if isinstance(step, AskAgain):
            lane = context.turn.calls[step.call].intent.lane
            context.append(CallRetracted(step.call, context.turn.turn, lane, "asked again after a take-over"))


async def _all(jobs: Sequence[Coroutine[Any, Any, int]]) -> Sequence[int]:
    """Do all at once. When one fails or this is cancelled, none is left behind."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(job) for job in jobs]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
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
        case Verify(on_doubt=on_doubt):
            return await _verify(step.call, on_doubt, attempt, context)
        case Doubt(on_doubt=on_doubt):
            return await _doubt(step.call, on_doubt, attempt, context)
        case Interrupt(text=text):
            await attempt.calls.settle(state, ToolResult("interrupted", text))
        case AskAgain():
            pass
    return 0


async def _verify(call: int, on_doubt: OnDoubt, attempt: EngineAttempt, context: Context) -> int:
    state = context.turn.calls[call]
    tool = context.tools.get(state.intent.name)
    if tool is None:
        return await _doubt(call, on_doubt, attempt, context)
    await context.gate.cross(Point.BEFORE_VERIFY, call=call, policy="verify")
    context.check()
    docs = CallDocs(context.documents)
    arguments = await context.value(state.intent.arguments)
    verdict = await ask_verify(tool, attempt.calls.io(state, docs), arguments)
    await context.write(_record(verdict, state.intent))
    await context.gate.cross(Point.AFTER_VERDICT, call=call, policy="verify")
    match verdict:
        case Done(result=result):
            await attempt.calls.settle(state, result_of(state.intent.name, result), docs)
        case NotDone():
            attempt.calls.may_run.add(call)
            await attempt.calls.finish(state)
        case Unsure():
            return await _doubt(call, on_doubt, attempt, context)
    return 0


def _record(verdict: Done | NotDone | Unsure, intent: CallIntent) -> Verdict:
    match verdict:
        case Done():
            return Verdict(intent.call, intent.turn, "done", lane=intent.lane)
        case NotDone():
            return Verdict(intent.call, intent.turn, "not_done", lane=intent.lane)
        case Unsure(note=note):
            return Verdict(intent.call, intent.turn, "unsure", note, intent.lane)


async def _doubt(call: int, on_doubt: OnDoubt, attempt: EngineAttempt, context: Context) -> int:
    if on_doubt == "ask":
        return call
    await attempt.calls.settle(context.turn.calls[call], ToolResult("in_doubt", IN_DOUBT))
    await context.gate.cross(Point.DOUBT_SETTLED, call=call, policy=context.turn.calls[call].intent.policy)
    return 0


async def _park(context: Context, calls: Sequence[int]) -> None:
    evidence = {"in_doubt": list(calls)}
    await context.write(TurnParked(context.turn.turn, "decision", evidence, context.clock.now()))
    context.stop("decision")
    raise TurnStopped("decision")
