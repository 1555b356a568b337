"""The adapter of an agent of pydantic-ai's, and the function beneath it, for loops of one's own."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.messages import BinaryContent, ModelMessage
from pydantic_ai.run import AgentRunResult
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_core import to_jsonable_python

from outlast.adapter import Attachment
from outlast.adapters.foreign import Replay
from outlast.adapters.pydantic_ai.messages import history_of
from outlast.adapters.pydantic_ai.versions import here, warnings
from outlast.adapters.pydantic_ai.wrapping import Durable, OurTools
from outlast.adapters.python import IO, Loop
from outlast.attaching import PDF, TEXT, as_words
from outlast.errors import BadInput
from outlast.parts import MEDIA_TYPES
from outlast.records.kinds import Policy
from outlast.recovery import Abilities

METADATA = "outlast"
"""Under this key a tool's metadata says its policy: `metadata={"outlast": "safe"}`, or a `Replay`."""


class PydanticAI(Loop):
    """The adapter of an agent of pydantic-ai's, which stays as it is.

    A prompt is a run of the agent; the turns of a session are one conversation. Its output is the turn's result.

    Args:
        agent: the agent.
        policies: what recovery may do about its tools, by name, above what their metadata says: `never`, `safe`,
            `keyed`, or a `Replay`. Those that nothing is said about are `never` run again.
        deps: what makes the run's `deps`, anew in each attempt.
        stream: ask models for streams, so that watchers see what comes. False for models that have none.
        more: further arguments of `Agent.run`: `usage_limits`, `model_settings`.
    """

    name = "pydantic-ai"

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        *,
        policies: Mapping[str, Replay | Policy] | None = None,
        deps: Callable[[IO], Any] | None = None,
        stream: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(self._carry, foreign={**policies_of(agent), **(policies or {})})
        self._agent = agent
        self._deps = deps
        self._stream = stream
        self._more = dict(more or {})

    @property
    def abilities(self) -> Abilities:
        return Abilities("all", waits=True, attachments=MEDIA_TYPES | {PDF, TEXT})

    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), "pydantic-ai": here()}

    def check(self) -> list[str]:
        return list(warnings())

    async def _carry(self, io: IO, prompt: str) -> object:
        talk = await io.talk()
        history = [] if talk is None else history_of(talk)
        more = dict(self._more)
        if self._deps is not None:
            more["deps"] = self._deps(io)
        asked = [*map(_part, await io.attachments()), prompt]
        said = asked if len(asked) > 1 else prompt
        result = await run_agent(io, self._agent, said, history=history, stream=self._stream, **more)
        return to_jsonable_python(result.output)


def _part(attachment: Attachment) -> str | BinaryContent:
    if attachment.media_type.startswith("text/"):
        return as_words(attachment)
    return BinaryContent(attachment.data, media_type=attachment.media_type)


async def run_agent(
    io: IO,
    agent: AbstractAgent[Any, Any],
    prompt: Any,
    *,
    history: list[ModelMessage] | None = None,
    stream: bool = True,
    **more: Any,
) -> AgentRunResult[Any]:
    """Run an agent of pydantic-ai's durably within a lane of a loop.

    Its model calls are calls of this lane, so nothing else may be done in it meanwhile. What recovery may do about its
    tools the loop says: `Loop(…, foreign=policies_of(agent))`. Within a tool,
    `outlast.adapters.foreign.this_call().io` is a lane to run another agent in.

    Args:
        history: `message_history` of the run; each message as it was before, in every attempt.
        stream: ask models for streams, so that watchers see what comes.
        more: further arguments of `Agent.run`.
    """
    ours = dict(io.tools)
    toolsets = [*more.pop("toolsets", ()), *([OurTools(ours)] if ours else [])]
    capabilities = [*more.pop("capabilities", ()), Durable(io, stream)]
    return await agent.run(
        prompt, message_history=history or None, toolsets=toolsets, capabilities=capabilities, **more
    )


def policies_of(agent: AbstractAgent[Any, Any]) -> Mapping[str, Replay | Policy]:
    """What the metadata of an agent's own tools says about them.

    Raises:
        BadInput: it is no policy.
    """
    found: dict[str, Replay | Policy] = {}

    def visit(toolset: AbstractToolset[Any]) -> None:
        if isinstance(toolset, FunctionToolset):
            for name, tool in toolset.tools.items():
                said = (tool.metadata or {}).get(METADATA)
                if said is not None:
                    found[name] = _policy(name, said)

    for toolset in agent.toolsets:
        toolset.apply(visit)
    return found


def _policy(name: str, said: object) -> Replay | Policy:
    if isinstance(said, Replay):
        return said
    if said in {"never", "safe", "keyed"}:
        return cast("Policy", said)
    raise BadInput(detail=f"The metadata of {name} says {said!r} to outlast, which is no policy.")
