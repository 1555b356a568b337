"""The conversation of a session: eve knows each turn as a session of its own, since it resumes none from a log.

What earlier turns said goes into every model request behind the instructions, the same bytes each time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from outlast.adapter import MAIN, Attempt
from outlast.adapters.shapes import Json, as_list, as_object, as_objects
from outlast.fold import TurnState
from outlast.tool import result_text

FILE: Final = ".eve/conversation.ndjson"
"""Below the session's home, and only in the log: a message a line, with the number of its turn."""
NOT_RUN: Final = "This call did not run: its turn was cut short."
_INSTRUCTIONS: Final = frozenset({"system", "developer"})


class _Line(msgspec.Struct, frozen=True):
    turn: int
    message: Json


class Conversation:
    """What has been said, as Chat Completions messages."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._earlier: list[_Line] = []
        self._own: list[_Line] = []
        self._written: list[_Line] = []

    @property
    def earlier(self) -> Sequence[Json]:
        """The messages of the turns before this one."""
        return [line.message for line in self._earlier]

    async def open(self) -> None:
        """Read what the log has, and complete what a turn that was cut short has left."""
        number = self._attempt.turn.turn
        lines = (await self._attempt.mirrored()).get(FILE, ())
        self._written = [msgspec.json.decode(line, type=_Line) for line in lines]
        self._earlier = [line for line in self._written if line.turn < number]
        cut = self._attempt.state.cut
        if cut is not None:
            said = [line.message for line in self._earlier if line.turn == cut.turn]
            before = [line for line in self._earlier if line.turn != cut.turn]
            asked = any(call.intent.kind == "model" for call in cut.calls.values())
            said = [*said, *await self._rest(cut, said)] if asked else []
            self._earlier = [*before, *(_Line(cut.turn, message) for message in said)]
        self._own = [_Line(number, {"role": "user", "content": self._attempt.prompt})]
        await self.record()

    def insert(self, messages: Sequence[Json]) -> list[Json]:
        """The messages of a request of eve's with those of earlier turns before its own."""
        begin = _instructions(messages)
        return [*messages[:begin], *self.earlier, *messages[begin:]]

    def heard(self, request: Mapping[str, Any]) -> None:
        """Take note of a request that is about to go upstream."""
        messages = as_objects(request.get("messages"))
        own = messages[_instructions(messages) + len(self._earlier) :]
        self._own = [_Line(self._attempt.turn.turn, message) for message in own]

    async def finish(self) -> None:
        """Record the turn as it has ended."""
        turn = self._attempt.turn
        rest = await self._rest(turn, [line.message for line in self._own])
        self._own += [_Line(turn.turn, message) for message in rest]
        await self.record()

    async def record(self) -> None:
        """Record what is new."""
        lines = [*self._earlier, *self._own]
        pairs = zip(lines, self._written, strict=False)
        same = next((at for at, (new, old) in enumerate(pairs) if new != old), None)
        if same is None:
            same = min(len(lines), len(self._written))
        if same == len(lines) == len(self._written):
            return
        self._written = lines
        await self._attempt.mirror(FILE, same, [msgspec.json.encode(line).decode() for line in lines[same:]])

    async def _rest(self, turn: TurnState, said: Sequence[Json]) -> list[Json]:
        """What the log has of a turn after the last answer in its messages: answers, and how their calls ended."""
        answers = await self._attempt.answers()
        order = [number for number, call in turn.calls.items() if call.intent.lane == MAIN]
        messages = [message_of(answers[number]) for number in order if number in answers]
        known = {name for message in said for name in calls_of(message)}
        seen = [at for at, message in enumerate(messages) if known & set(calls_of(message))]
        rest: list[Json] = []
        for message in messages[seen[-1] + 1 if seen else 0 :]:
            rest.append(message)
            rest += [await self._ended(turn, name) for name in calls_of(message)]
        return rest

    async def _ended(self, turn: TurnState, name: str) -> Json:
        found = [
            number
            for number, call in turn.calls.items()
            if call.intent.harness_id == name and call.outcome is not None
        ]
        said = result_text((await self._attempt.outcome(found[-1])).value) if found else NOT_RUN
        return {"role": "tool", "tool_call_id": name, "content": said}


def message_of(answer: Mapping[str, Any]) -> Json:
    """What a completion says, as eve tells it to the model later."""
    choices = as_objects(answer.get("choices"))
    said = as_object(choices[0].get("message")) if choices else {}
    calls = as_list(said.get("tool_calls"))
    message = {"role": "assistant", "content": said.get("content") or ""}
    return {**message, "tool_calls": calls} if calls else message


def calls_of(message: Mapping[str, Any]) -> list[str]:
    """The ids of the calls that a message asks for."""
    return [str(call.get("id")) for call in as_objects(message.get("tool_calls"))]


def _instructions(messages: Sequence[Json]) -> int:
    """How many messages at the beginning are instructions."""
    return next(
        (at for at, message in enumerate(messages) if message.get("role") not in _INSTRUCTIONS), len(messages)
    )
