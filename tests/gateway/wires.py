"""The same conversation in each dialect, as a harness that speaks it puts it, and what a plain client makes of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import Dialect
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_responses import OpenAIResponses
from outlast.testing.models import Answer, Billed, Step, ToolUse
from outlast.testing.models import Dialect as ScriptedDialect
from outlast.testing.models.anthropic import Anthropic as ScriptedAnthropic
from outlast.testing.models.openai_chat import OpenAIChat as ScriptedChat
from outlast.testing.models.openai_responses import OpenAIResponses as ScriptedResponses

LOOK = ToolUse(name="look", input={"at": "x" * 60})
ASKS = Step(thinking="hm hm", text="I will look.", tools=(LOOK, ToolUse(name="list")))
SAYS = Step(text="It is done.")
BILLED = Billed(10, 7, 2, 4)

Turn = Mapping[str, Sequence[Mapping[str, Any]]]
"""A piece of a conversation in every dialect, by its name."""


@dataclass(frozen=True)
class Call:
    """A tool call as a client has read it."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Read:
    """What a plain client makes of an answer; it knows nothing of the gateway's own readers."""

    text: str
    calls: tuple[Call, ...]
    whole: bool
    turn: Sequence[Mapping[str, Any]]
    """The answer as it comes back in the next request."""


@dataclass(frozen=True)
class Wire:
    """One dialect."""

    dialect: Dialect
    scripted: ScriptedDialect

    @property
    def name(self) -> str:
        return self.dialect.name

    @property
    def path(self) -> str:
        return self.scripted.path

    def frames(self, step: Step) -> list[bytes]:
        """A stream that says `step`."""
        return self.scripted.frames(_answer(step))

    def body(self, step: Step) -> bytes:
        """The same in one piece."""
        return self.scripted.body(_answer(step))

    def request(self, *turns: Sequence[Mapping[str, Any]], stream: bool = True) -> dict[str, Any]:
        """A request with this conversation."""
        said = [item for turn in turns for item in turn]
        more: dict[str, Any] = {"model": "m", "stream": stream}
        match self.name:
            case "openai-responses":
                return {**more, "input": said}
            case "openai-chat":
                return {**more, "messages": said, "stream_options": {"include_usage": True}}
            case _:
                return {**more, "messages": said, "max_tokens": 9}

    def user(self, text: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": text}]

    def result(self, call: str, text: str) -> list[dict[str, Any]]:
        """A tool result, as it stands in a request."""
        match self.name:
            case "openai-responses":
                return [{"type": "function_call_output", "call_id": call, "output": text}]
            case "openai-chat":
                return [{"role": "tool", "tool_call_id": call, "content": text}]
            case _:
                block = {"type": "tool_result", "tool_use_id": call, "content": text}
                return [{"role": "user", "content": [block]}]

    def result_in(self, request: Mapping[str, Any]) -> str:
        """The text of the last tool result in a request."""
        match self.name:
            case "openai-responses":
                return request["input"][-1]["output"]
            case "openai-chat":
                return request["messages"][-1]["content"]
            case _:
                return request["messages"][-1]["content"][-1]["content"]

    def read(self, raw: bytes) -> Read:
        """Read a stream, however much of it has come."""
        events = list(_events(raw))
        match self.name:
            case "openai-responses":
                return _responses(events)
            case "openai-chat":
                return _chat(events, b"[DONE]" in raw)
            case _:
                return _anthropic(events)


WIRES = (
    Wire(AnthropicMessages(), ScriptedAnthropic()),
    Wire(OpenAIResponses(), ScriptedResponses()),
    Wire(OpenAIChat(), ScriptedChat()),
)


def _answer(step: Step) -> Answer:
    return Answer(id="a1", model="m", step=step, billed=BILLED)


def _events(raw: bytes) -> Iterator[dict[str, Any]]:
    for part in raw.decode().split("\n\n")[:-1]:
        for line in part.split("\n"):
            data = line.removeprefix("data: ")
            if data not in {line, "[DONE]"}:
                yield msgspec.json.decode(data)


def _responses(events: Sequence[dict[str, Any]]) -> Read:
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    texts = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    calls = [item for item in items if item["type"] == "function_call"]
    return Read(
        "".join(texts),
        tuple(Call(it["call_id"], it["name"], msgspec.json.decode(it["arguments"])) for it in calls),
        any(event["type"] == "response.completed" for event in events),
        items,
    )


def _chat(events: Sequence[dict[str, Any]], whole: bool) -> Read:  # noqa: FBT001 - read off the bytes
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    calls: list[dict[str, Any]] = message["tool_calls"]
    deltas: list[dict[str, Any]] = [choice["delta"] for event in events for choice in event["choices"]]
    for delta in deltas:
        message["content"] += delta.get("content") or ""
        pieces: list[dict[str, Any]] = delta.get("tool_calls") or []
        for piece in pieces:
            if piece["index"] == len(calls):
                calls.append({**piece, "function": dict(piece["function"])})
                calls[-1].pop("index")
            else:
                calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return Read(
        message["content"],
        tuple(
            Call(it["id"], it["function"]["name"], msgspec.json.decode(it["function"]["arguments"]))
            for it in (calls if whole else [])
        ),
        whole,
        [message],
    )


def _anthropic(events: Sequence[dict[str, Any]]) -> Read:
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    ended: set[int] = set()
    for event in events:
        index: int = event.get("index", 0)
        delta: dict[str, Any] = event.get("delta") or {}
        match event["type"]:
            case "content_block_start":
                blocks.append(dict(event["content_block"]))
            case "content_block_delta" if "partial_json" in delta:
                inputs[index] = inputs.get(index, "") + delta["partial_json"]
            case "content_block_delta":
                key = delta["type"].removesuffix("_delta")
                blocks[index][key] = (blocks[index].get(key) or "") + delta[key]
            case "content_block_stop":
                ended.add(index)
                if inputs.get(index):
                    blocks[index]["input"] = msgspec.json.decode(inputs[index])
            case _:
                pass
    asked = [block for at, block in enumerate(blocks) if block["type"] == "tool_use" and at in ended]
    return Read(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        tuple(Call(block["id"], block["name"], block["input"]) for block in asked),
        any(event["type"] == "message_stop" for event in events),
        [{"role": "assistant", "content": blocks}],
    )
