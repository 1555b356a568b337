"""What stands behind the calls of a turn: which model answered and why it ended, and, where it is wanted, the words."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from outlast.codec import ModelRequest, read_messages, request_of
from outlast.records import EMPTY, Payload
from outlast.squeezing import unsqueeze
from outlast.telemetry import names
from outlast.telemetry.messages import answer_of, as_message, system_of
from outlast.telemetry.reading import CallDetail, Story
from outlast.telemetry.spans import Span, Value, with_attributes
from outlast.world import World

LIMIT: Final = 64 * 1024
"""Characters of one attribute. Of a conversation the newest messages stand in it, of any other text its beginning."""
BATCH: Final = 64
"""Calls whose payloads are fetched at once."""


class Payloads:
    """The payloads of a session's records."""

    def __init__(self, world: World, session: str) -> None:
        self._world = world
        self._session = session

    async def fetch(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Stored bytes of blobs."""
        return await self._world.get_many(self._session, names) if names else {}

    async def texts(self, payloads: Sequence[Payload]) -> list[bytes]:
        """The JSON text of each."""
        found = await self.fetch(list(dict.fromkeys(one.ref for one in payloads if one.ref)))
        return [unsqueeze(found[one.ref]) if one.ref else bytes(one.json) for one in payloads]


async def complete(world: World, story: Story, spans: Sequence[Span], *, words: bool) -> list[Span]:
    """The spans with what stands behind their calls.

    Args:
        words: also what was asked and answered, what tools were given and what they gave back, and why attempts failed.
    """
    payloads = Payloads(world, story.settled.session)
    whole: list[Span] = []
    for at in range(0, len(spans), BATCH):
        batch = spans[at : at + BATCH]
        whole += await _answered(payloads, story, batch, words=words)
    if not words:
        return whole
    whole = [await _spoken(payloads, story, span) for span in whole]
    prompt, result = await payloads.texts([story.prompt, story.result])
    said = {
        names.INPUT_MESSAGES: _messages([{"role": "user", "content": msgspec.json.decode(prompt)}]),
        names.OUTPUT_MESSAGES: _messages([{"role": "assistant", "content": _text(result)}], "stop"),
    }
    return [with_attributes(whole[0], {**said, **_reason(story.bar.error)}), *whole[1:]]


async def _answered(payloads: Payloads, story: Story, batch: Sequence[Span], *, words: bool) -> list[Span]:
    """Model calls with what is known of their answers."""
    wanted = {at: detail for at, span in enumerate(batch) if (detail := _answering(story, span)) is not None}
    results = [detail.outcome.result if detail.outcome else EMPTY for detail in wanted.values()]
    texts = dict(zip(wanted, await payloads.texts(results), strict=True))
    return [
        with_attributes(span, _of_answer(texts[at], words=words)) if at in texts else span
        for at, span in enumerate(batch)
    ]


def _answering(story: Story, span: Span) -> CallDetail | None:
    detail = story.calls.get(span.call)
    if detail is None or not span.last or detail.intent.kind != "model":
        return None
    return detail if detail.outcome is not None and detail.outcome.status == "ok" else None


def _of_answer(text: bytes, *, words: bool) -> dict[str, Value]:
    value = msgspec.json.decode(text)
    if not isinstance(value, dict):
        return {}
    answer = answer_of(cast("dict[str, Any]", value))
    found: dict[str, Value] = {}
    if answer.model:
        found[names.RESPONSE_MODEL] = answer.model
    if answer.id:
        found[names.RESPONSE_ID] = answer.id
    if answer.reasons:
        found[names.FINISH_REASONS] = answer.reasons
    if words:
        reason = answer.reasons[0] if answer.reasons else ""
        found[names.OUTPUT_MESSAGES] = _messages(answer.messages, reason)
    return found


async def _spoken(payloads: Payloads, story: Story, span: Span) -> Span:
    """The span with what its call was asked, and a tool's with what it gave back."""
    detail = story.calls.get(span.call)
    if detail is None:
        fence = span.attributes.get(names.FENCE)
        ended = next((one.error for one in story.bar.attempts if one.attempt == fence), "")
        return with_attributes(span, _reason(ended) if names.ENDED in span.attributes else {})
    if detail.intent.kind == "model":
        return with_attributes(span, await _asked(payloads, detail))
    outcome = detail.outcome if span.last else None
    given, back = await payloads.texts(
        [detail.intent.arguments, EMPTY if outcome is None else outcome.result]
    )
    said: dict[str, Value] = {names.TOOL_ARGUMENTS: _cut(given.decode())}
    if outcome is not None:
        said[names.TOOL_RESULT] = _cut(_text(back))
    return with_attributes(span, said)


async def _asked(payloads: Payloads, detail: CallDetail) -> dict[str, Value]:
    request = request_of(detail.intent)
    if request is None:
        return {}
    # Of a long conversation its end: each request holds all of it, and a turn has many.
    newest = ModelRequest(request.frame, request.nodes[-1:], request.tail)
    frame, messages = await read_messages(newest, payloads.fetch)
    said: dict[str, Value] = {names.INPUT_MESSAGES: _messages(messages)}
    system = system_of(frame)
    if system:
        said[names.SYSTEM] = _json([{"type": "text", "content": _cut(system)}])
    return said


def _reason(error: str) -> dict[str, Value]:
    return {names.DETAIL: _cut(error)} if error else {}


def _messages(raw: Sequence[Any], reason: str = "") -> str:
    """The newest of them that fit, as the conventions have messages."""
    kept: list[bytes] = []
    size = 0
    for one in reversed(raw):
        message = as_message(one)
        if reason:
            message["finish_reason"] = reason
        text = msgspec.json.encode(message)
        size += len(text)
        if size > LIMIT:
            break
        kept.append(text)
    return "[" + b",".join(reversed(kept)).decode() + "]"


def _text(json: bytes) -> str:
    value = msgspec.json.decode(json)
    return value if isinstance(value, str) else json.decode()


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT else text[:LIMIT]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
