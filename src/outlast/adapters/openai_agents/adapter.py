"""The adapter of an agent of the OpenAI Agents SDK, and the function beneath it, for loops of one's own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agents import Agent, RunResult
from agents.items import TResponseInputItem
from pydantic_core import to_jsonable_python

from outlast.adapters.foreign import Replay
from outlast.adapters.openai_agents.items import history_of, listed, said
from outlast.adapters.openai_agents.runner import carried
from outlast.adapters.openai_agents.versions import here, warnings
from outlast.adapters.openai_agents.wrapping import Run, agents_as_tools
from outlast.adapters.python import IO, Loop
from outlast.attaching import PDF, TEXT
from outlast.errors import BadInput
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities

_MEMORIES: Final = ("session", "conversation_id", "previous_response_id", "auto_previous_response_id")
_TWO_MEMORIES: Final = (
    "{names} cannot be given here: the log of outlast's session is what the agent remembers."
)


class OpenAIAgents(Loop):
    """The adapter of an agent of the OpenAI Agents SDK, which stays as it is.

    A prompt is a run of the agent; the turns of a session are one conversation, and each begins with this agent. Its
    final output is the turn's result.

    Args:
        agent: the agent.
        policies: what recovery may do about the function tools of it and of those it hands over to, by name: `never`,
            `safe`, `keyed`, or a `Replay`. Those that are not named are `never` run again, but agents as tools
            (`Agent.as_tool`) are `safe`: what they had done is in the log.
        context: what makes the run's `context`, anew in each attempt.
        stream: ask models for streams, so that watchers see what comes.
        more: further arguments of `Runner.run`: `max_turns`, `run_config`. Tracing, which sends what is said to OpenAI,
            is off unless a `run_config` of yours says otherwise.

    Raises:
        BadInput: `more` holds a memory of the SDK's, such as `session`.
    """

    name = "openai-agents"

    def __init__(
        self,
        agent: Agent[Any],
        *,
        policies: Mapping[str, Replay | Policy] | None = None,
        context: Callable[[IO], Any] | None = None,
        stream: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        twice = [name for name in _MEMORIES if (more or {}).get(name)]
        if twice:
            raise BadInput(detail=_TWO_MEMORIES.format(names=", ".join(twice)))
        nested: dict[str, Replay | Policy] = dict.fromkeys(agents_as_tools(agent), "safe")
        super().__init__(self._carry, foreign={**nested, **(policies or {})})
        self._agent = agent
        self._context = context
        self._stream = stream
        self._more = dict(more or {})

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", waits=True, attachments=MEDIA_TYPES | {PDF, TEXT})

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), "openai-agents": here()}

    def check(self) -> Sequence[str]:
        return warnings()

    async def _carry(self, io: IO, prompt: str) -> object:
        talk = await io.talk()
        before = [] if talk is None else history_of(talk)
        more = dict(self._more)
        if self._context is not None:
            more["context"] = self._context(io)
        asked = [*before, *said(prompt, await io.attachments())]
        result = await run_agent(io, self._agent, asked, stream=self._stream, **more)
        return to_jsonable_python(result.final_output)


async def run_agent(
    io: IO,
    agent: Agent[Any],
    asked: str | list[TResponseInputItem],
    *,
    stream: bool = True,
    **more: Any,
) -> RunResult:
    """Run an agent of the OpenAI Agents SDK durably within a lane of a loop.

    Its model calls are calls of this lane, so nothing else may be done in it meanwhile. What recovery may do about its
    tools the loop says: `Loop(…, foreign={"search": "safe"})`. Calls that need approval wait for a person.

    Args:
        asked: the input of the run; the same in every attempt.
        stream: ask models for streams, so that watchers see what comes.
        more: further arguments of `Runner.run`.
    """
    return await carried(
        Run(io, stream, io.tools), agent, asked if isinstance(asked, list) else listed(asked), more
    )
