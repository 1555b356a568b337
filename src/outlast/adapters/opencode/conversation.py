"""Where the next process of OpenCode begins: what of the mirror it is given, and what the log knows beyond that."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from outlast.adapter import MAIN, Attempt, ToolResult
from outlast.adapters.opencode.dialogue import COMPACTION
from outlast.adapters.opencode.events import Stored, aggregate_of, is_root, path_of, read
from outlast.adapters.opencode.names import message_id
from outlast.adapters.opencode.policies import policy_of
from outlast.adapters.opencode.repair import Asked, Kept, kept
from outlast.adapters.program import LOST as TOLD_OF_LOST
from outlast.adapters.program import answered
from outlast.adapters.shapes import Json, as_object
from outlast.fold import TurnState
from outlast.recovery import NOT_COMPLETED

LOST: Final = ToolResult("error", TOLD_OF_LOST)
AGAIN: Final = ToolResult("error", NOT_COMPLETED)


@dataclass(frozen=True, slots=True)
class Ready:
    """What to give to the next process."""

    prompt: str
    """Id of the message with the turn's prompt."""
    session: str
    """The conversation in OpenCode; empty if it is to be created."""
    kept: Kept
    others: Mapping[str, Sequence[Stored]]
    """The sessions of sub-agents."""
    results: Mapping[str, ToolResult]
    """How calls ended that OpenCode may ask for again, or that it does not know the end of."""

    @property
    def known(self) -> Mapping[str, int]:
        """The number of the last event of each session that the log has."""
        own = {self.session: len(self.kept.events) - 1} if self.session else {}
        return {**own, **{name: len(events) - 1 for name, events in self.others.items()}}


async def prepare(attempt: Attempt) -> Ready:
    """Bring the mirror to where the log is. What the process is then given of answers is delivered."""
    turn = attempt.turn
    prompt = message_id(turn.input, turn.at_s)
    sessions = {
        name: read(lines)
        for path, lines in (await attempt.mirrored()).items()
        if (name := aggregate_of(path)) is not None and lines
    }
    session = next((name for name, events in sessions.items() if is_root(events)), "")
    events = sessions.pop(session, [])
    own = kept(events, prompt, _asked(turn))
    await _cut(attempt, session, len(events), len(own.events))
    others: dict[str, Sequence[Stored]] = {}
    for name, theirs in sessions.items():
        left = kept(theirs, "", ()).events
        await _cut(attempt, name, len(theirs), len(left))
        others[name] = left
    attempt.calls.delivered(own.answered)
    attempt.calls.delivered([call.intent.call for call in answered(turn, COMPACTION)[: own.summaries]])
    return Ready(prompt, session, own, others, await _results(attempt, own))


async def _cut(attempt: Attempt, session: str, before: int, after: int) -> None:
    if after < before:
        await attempt.mirror(path_of(session), after, [])


def _asked(turn: TurnState) -> list[Asked]:
    tools: dict[int, dict[str, str]] = defaultdict(dict)
    for call in turn.calls.values():
        if call.intent.harness_id:
            ended = "" if call.outcome is None else call.outcome.status
            tools[call.intent.asked_by][call.intent.harness_id] = ended
    return [Asked(call.intent.call, tools[call.intent.call]) for call in answered(turn, MAIN)]


async def _results(attempt: Attempt, own: Kept) -> Mapping[str, ToolResult]:
    """How the calls of this turn and of one that was cut short ended, which OpenCode may tell otherwise."""
    there = {str(part.get("callID", "")) for message in own.messages for part in message.tools}
    results = {str(part.get("callID", "")): _lost(part) for part in own.dangling}
    dangling = frozenset(results)
    turns = [attempt.turn] if attempt.state.cut is None else [attempt.state.cut, attempt.turn]
    for call in (call for turn in turns for call in turn.calls.values()):
        name = call.intent.harness_id
        if not name or call.outcome is None or name in there - dangling:
            continue
        result = await attempt.outcome(call.intent.call)
        results[name] = result
        if result.status in {"ok", "error"} and call.intent.runs_in == "harness":
            attempt.calls.correct(name, result)
    return results


def _lost(part: Json) -> ToolResult:
    """What the model is told of a call of which neither log nor OpenCode knows the end."""
    arguments = as_object(as_object(part.get("state")).get("input"))
    return AGAIN if policy_of(str(part.get("tool", "")), arguments) == "safe" else LOST
