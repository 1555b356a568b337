"""What stands in a message of the AI SDK, as far as its chunks need to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from outlast.records import Usage

Chunk = dict[str, Any]


@dataclass(slots=True)
class WordsPart:
    """The part that a model call is writing."""

    call: int
    kind: str
    number: int

    @property
    def id(self) -> str:
        return f"{self.call}.{self.kind}.{self.number}"

    @property
    def type(self) -> str:
        return "text" if self.kind == "text" else "reasoning"


@dataclass(slots=True)
class LanePart:
    """What is shown of a lane beside the conversation."""

    lane: str
    models: int = 0
    tools: int = 0
    doing: str = ""
    said: str = ""


@dataclass(slots=True)
class Stood:
    """Parts of the current step that are not its model call's: by name, the chunks that make each."""

    step: int = 0
    parts: dict[str, list[Chunk]] = field(default_factory=dict[str, list[Chunk]])
    homes: dict[str, int] = field(default_factory=dict[str, int])
    """In which step each part stands, for those of earlier ones: these outlive a reset."""

    def next(self) -> None:
        self.step += 1
        self.parts = {}

    def note(self, name: str, chunk: Chunk, *, anew: bool) -> None:
        """A chunk about a part; `anew`: it says all that there is to say of it."""
        if self.homes.setdefault(name, self.step) == self.step:
            self.parts[name] = [chunk] if anew else [*self.parts.get(name, ()), chunk]


def usage_of(usage: Usage | None) -> Mapping[str, Any]:
    """What was used, in the SDK's words; empty where nothing is known."""
    if usage is None or usage == Usage():
        return {}
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "usage": {
            "inputTokens": read,
            "cachedInputTokens": usage.cache_read_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": read + usage.output_tokens,
            "costUsd": usage.cost_usd,
        }
    }
