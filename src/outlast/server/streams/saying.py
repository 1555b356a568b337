"""The words of a model call's answer, in whatever form it stands in the log.

A program's answers stand there as its provider sent them (Anthropic's Messages, OpenAI's Responses and Chat
Completions), those of a loop as `outlast.model` or its framework writes them (pydantic-ai, LangGraph), those of the
scripted harness as a bare text. A form that is none of these has no words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call that an answer asks for."""

    id: str
    """As model and harness call it."""
    name: str
    arguments: Any
    """JSON: an object, or what the model wrote where that is none."""


Words: TypeAlias = Literal["text", "thinking"]


@dataclass(frozen=True, slots=True)
class Saying:
    """What a model said."""

    words: tuple[tuple[Words, str], ...] = ()
    """In order, none empty, no two of a kind behind one another: what stands in several blocks is joined as the
    answer's stream shows it, with nothing between."""
    asks: tuple[Ask, ...] = ()

    def whole(self, kind: Words) -> str:
        """All words of a kind."""
        return "".join(text for said, text in self.words if said == kind)


@dataclass(frozen=True, slots=True)
class _Thought:
    text: str


_Said: TypeAlias = "str | _Thought | Ask"
_Reader: TypeAlias = "Callable[[Mapping[str, Any]], Iterable[_Said] | None]"


def read_saying(value: object) -> Saying:
    """The words of an answer. Never fails: what cannot be read has none."""
    answer = _object(value)
    for reader in _READERS:
        found = reader(answer)
        if found is not None:
            parts = list(found)
            return Saying(_words(parts), tuple(part for part in parts if isinstance(part, Ask)))
    return Saying()


def _words(parts: Sequence[_Said]) -> tuple[tuple[Words, str], ...]:
    words: list[tuple[Words, str]] = []
    for part in parts:
        if isinstance(part, Ask):
            continue
        kind, text = ("text", part) if isinstance(part, str) else ("thinking", part.text)
        if text and words and words[-1][0] == kind:
            words[-1] = (kind, words[-1][1] + text)
        elif text:
            words.append((kind, text))
    return tuple(words)


def _of_loop(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """`outlast.model.Answer`."""
    message = _object(answer.get("message"))
    if not isinstance(message.get("parts"), list):
        return None
    return [said for part in _objects(message["parts"]) for said in _part(part)]


def _part(part: Mapping[str, Any]) -> Iterable[_Said]:
    match part.get("kind"):
        case "text":
            yield _text(part.get("text"))
        case "thinking":
            yield _Thought(_text(part.get("text")))
        case "tool_call":
            given: Any = part.get("unreadable") or part.get("arguments", {})
            yield Ask(_text(part.get("id")), _text(part.get("name")), given)
        case _:
            pass


def _of_messages(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """Anthropic's Messages, and what adapters write like it."""
    if not isinstance(answer.get("content"), list):
        return None
    return [said for block in _objects(answer["content"]) for said in _block(block)]


def _block(block: Mapping[str, Any]) -> Iterable[_Said]:
    match block.get("type"):
        case "text":
            yield _text(block.get("text"))
        case "thinking":
            yield _Thought(_text(block.get("thinking")))
        case "tool_use":
            yield Ask(_text(block.get("id")), _text(block.get("name")), block.get("input"))
        case _:
            pass


def _of_responses(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """OpenAI's Responses."""
    if not isinstance(answer.get("output"), list):
        return None
    return [said for item in _objects(answer["output"]) for said in _item(item)]


def _item(item: Mapping[str, Any]) -> Iterable[_Said]:
    kind = _text(item.get("type"))
    match kind:
        case "message":
            for part in _objects(item.get("content")):
                yield _text(part.get("text") or part.get("refusal"))
        case "reasoning":
            for part in (*_objects(item.get("summary")), *_objects(item.get("content"))):
                yield _Thought(_text(part.get("text")))
        case "function_call" | "custom_tool_call":
            given = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
            yield Ask(_text(item.get("call_id")), _text(item.get("name")), _decoded(given))
        case _ if kind.endswith("_call") and item.get("call_id"):
            yield Ask(_text(item["call_id"]), kind.removesuffix("_call"), item.get("action"))
        case _:
            pass


def _of_completions(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """OpenAI's Chat Completions: the first choice is the answer that is shown."""
    choices = _objects(answer.get("choices"))
    if not choices:
        return None
    message = _object(choices[0].get("message"))
    thought = _text(message.get("reasoning_content") or message.get("reasoning"))
    asks = [_asked(call) for call in _objects(message.get("tool_calls"))]
    return [_Thought(thought), _text(message.get("content")), _text(message.get("refusal")), *asks]


def _asked(call: Mapping[str, Any]) -> Ask:
    if call.get("type") == "custom":
        custom = _object(call.get("custom"))
        return Ask(_text(call.get("id")), _text(custom.get("name")), {"input": custom.get("input")})
    function = _object(call.get("function"))
    return Ask(_text(call.get("id")), _text(function.get("name")), _decoded(function.get("arguments")))


def _of_pydantic_ai(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """pydantic-ai's `ModelResponse`."""
    if not isinstance(answer.get("parts"), list):
        return None
    return [said for part in _objects(answer["parts"]) for said in _response_part(part)]


def _response_part(part: Mapping[str, Any]) -> Iterable[_Said]:
    match part.get("part_kind"):
        case "text":
            yield _text(part.get("content"))
        case "thinking":
            yield _Thought(_text(part.get("content")))
        case "tool-call":
            name = _text(part.get("tool_name"))
            yield Ask(_text(part.get("tool_call_id")), name, _decoded(part.get("args")))
        case _:
            pass


def _of_langchain(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """LangChain's messages."""
    if "data" not in answer or "type" not in answer:
        return None
    data = _object(answer["data"])
    content = data.get("content")
    blocks = [content] if isinstance(content, str) else [_block(block) for block in _objects(content)]
    said = [
        one
        for part in blocks
        for one in ([part] if isinstance(part, str) else part)
        if not isinstance(one, Ask)  # they stand in `tool_calls`, whoever the provider is
    ]
    asks = [
        Ask(_text(call.get("id")), _text(call.get("name")), call.get("args"))
        for call in _objects(data.get("tool_calls"))
    ]
    return [*said, *asks]


def _of_script(answer: Mapping[str, Any]) -> Iterable[_Said] | None:
    """The scripted harness's."""
    return [answer["text"]] if isinstance(answer.get("text"), str) else None


_READERS: Final[Sequence[_Reader]] = (
    _of_loop,
    _of_completions,
    _of_responses,
    _of_messages,
    _of_pydantic_ai,
    _of_langchain,
    _of_script,
)


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", one) for one in found if isinstance(one, dict)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _decoded(text: object) -> Any:
    """Arguments that a model wrote as a text; the text itself where that is no JSON object."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return text
