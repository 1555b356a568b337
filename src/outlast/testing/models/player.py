"""Plays the script: takes a request in one dialect, finds its step and answers as that says."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from outlast.ids import digest, short_digest
from outlast.testing.models.dialect import Answer, Billed, Dialect, ModelRequest
from outlast.testing.models.errors import NoConversation, UnreadableRequest
from outlast.testing.models.ledger import NOTHING_BILLED, Ledger, Outcome, RequestRecord
from outlast.testing.models.progress import Place, locate
from outlast.testing.models.script import Garbage, Script, Step, Times
from outlast.testing.models.wire import Wire

MODEL_KIND: Final = "model"

_JSON: Final = {"content-type": "application/json"}
_STREAM: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_GARBAGE: Final[dict[Garbage, tuple[dict[str, str], list[bytes]]]] = {
    "json": (_JSON, [b'{"type": "message", "content": [{"type": "te']),
    "sse": (_STREAM, [b"event: nonsense\ndata: {not json\n\n", b"data\n\n", b"\xff\x00: 7\n\n"]),
    "html": ({"content-type": "text/html"}, [b"<html><body><h1>502 Bad Gateway</h1></body></html>"]),
    "empty": (_STREAM, []),
}
_CUT_PIECE: Final = 64  # bytes of a whole body that count as a frame when it is to be cut
_BYTES_PER_TOKEN: Final = 4  # the usual estimate for English text and JSON


@dataclass(frozen=True)
class _Ending:
    outcome: Outcome
    status: int = 0
    frames: int = 0
    billed: Billed = NOTHING_BILLED


class Faults:
    """Counts how often a step's fault happened, over the server's life."""

    def __init__(self) -> None:
        self._happened: Counter[tuple[str, int, str]] = Counter()

    def due(self, place: Place, kind: str, times: Times) -> bool:
        """Say whether the fault happens this time, and if so, count it."""
        key = (place.conversation, place.index, kind)
        if times != "always" and self._happened[key] >= times:
            return False
        self._happened[key] += 1
        return True


class Player:
    """An ASGI application that answers the model requests of one dialect, and its side requests."""

    def __init__(self, dialect: Dialect, script: Script, ledger: Ledger) -> None:
        self._dialect = dialect
        self._script = script
        self._ledger = ledger
        self._faults = Faults()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and write down how that ended."""
        wire = Wire(scope, receive, send)
        raw = await wire.read()
        n, kind = self._ledger.next_number(), self._dialect.side_paths().get(scope["path"], MODEL_KIND)
        try:
            request = self._dialect.parse(raw)
        except UnreadableRequest as error:
            self._arrived(n, kind, raw, raw)
            ending = await self._refuse(wire, 400, str(error))
        else:
            canonical = msgspec.json.encode(request.canonical, order="sorted")
            if kind == MODEL_KIND:
                ending = await self._model_call(n, wire, request, raw, canonical)
            else:
                self._arrived(n, kind, raw, canonical)
                body = self._dialect.side_body(scope["path"], request, _estimate(len(canonical)))
                ending = await _whole(wire, 200, {}, body)
        self._ledger.ended(
            n, outcome=ending.outcome, status=ending.status, frames=ending.frames, billed=ending.billed
        )

    async def _model_call(
        self, n: int, wire: Wire, request: ModelRequest, raw: bytes, canonical: bytes
    ) -> _Ending:
        try:
            place = locate(self._script, request.messages)
        except NoConversation as error:
            self._arrived(n, MODEL_KIND, raw, canonical, stream=request.stream)
            return await self._refuse(wire, 400, str(error))
        self._arrived(n, MODEL_KIND, raw, canonical, stream=request.stream, place=place)
        name = re.sub(r"[^A-Za-z0-9_-]", "-", place.conversation)[:24]
        answer = Answer(
            id=f"{name}_{place.index}_{n}_{short_digest(canonical) >> 32:08x}",
            model=request.model,
            step=place.step,
            billed=_bill(place.step, len(canonical)),
            tells_usage=request.tells_usage,
            offers=request.offers,
        )
        await wire.pause(place.step.delay_s)
        if wire.gone:
            return _Ending("client_gone")
        return await self._fault(wire, place, answer) or await self._answer(wire, place, answer, request)

    def _arrived(
        self,
        n: int,
        kind: str,
        raw: bytes,
        canonical: bytes,
        *,
        stream: bool = False,
        place: Place | None = None,
    ) -> None:
        record = RequestRecord(
            n=n,
            at=self._ledger.now(),
            dialect=self._dialect.name,
            kind=kind,
            stream=stream,
            conversation=place.conversation if place else None,
            step=place.index if place else None,
            digest=digest(canonical),
        )
        self._ledger.arrived(record, raw)

    async def _fault(self, wire: Wire, place: Place, answer: Answer) -> _Ending | None:
        step = place.step
        if step.status is not None and self._faults.due(place, "status", step.times):
            return await self._refuse(wire, step.status, step.error_text, step)
        if step.hang and self._faults.due(place, "hang", step.times):
            await wire.until_gone()
            return _Ending("client_gone")
        if step.garbage is not None and self._faults.due(place, "garbage", step.times):
            return await self._garbage(wire, step.garbage, answer)
        return None

    async def _garbage(self, wire: Wire, kind: Garbage, answer: Answer) -> _Ending:
        if kind in _GARBAGE:
            headers, pieces = _GARBAGE[kind]
            _, sent = await _send(wire, headers, pieces)
            return _Ending("garbage", 200, sent)
        _, sent = await _send(wire, _STREAM, self._dialect.unended(answer))
        share = _share(answer.billed, sent, len(self._dialect.frames(answer)))
        return _Ending("garbage", 200, sent, share)

    async def _answer(self, wire: Wire, place: Place, answer: Answer, request: ModelRequest) -> _Ending:
        step = place.step
        cut = step.cut_after
        if cut is not None and not self._faults.due(place, "cut", step.cut_times):
            cut = None
        headers = {"request-id": f"req_{answer.id}", "x-request-id": f"req_{answer.id}"}
        if request.stream:
            frames = self._dialect.frames(answer)
            outcome, sent = await _send(wire, _STREAM | headers, frames, gap_s=step.gap_s, cut=cut)
            return _Ending(outcome, 200, sent, _share(answer.billed, sent, len(frames)))
        body = self._dialect.body(answer)
        if cut is None:
            return await _whole(wire, 200, headers, body, answer.billed)
        return await _cut_whole(wire, headers, body, cut, answer.billed)

    async def _refuse(self, wire: Wire, status: int, message: str, step: Step | None = None) -> _Ending:
        headers: dict[str, str] = {}
        if step is not None and step.retry_after_s is not None:
            headers["retry-after"] = f"{step.retry_after_s:g}"
        body = self._dialect.error(status, step.error_type if step else None, message)
        await _whole(wire, status, headers, body)
        return _Ending("error", status)


async def _send(
    wire: Wire,
    headers: dict[str, str],
    pieces: Sequence[bytes],
    *,
    gap_s: float = 0.0,
    cut: int | None = None,
) -> tuple[Outcome, int]:
    await wire.start(200, headers)
    sent = 0
    for piece in pieces[:cut]:
        if gap_s and sent:
            await wire.pause(gap_s)
        if wire.gone:
            return "client_gone", sent
        await wire.write(piece)
        sent += 1
    if cut is not None:
        await wire.drop()
        return "cut", sent
    await wire.finish()
    return "completed", sent


async def _whole(
    wire: Wire, status: int, headers: dict[str, str], body: bytes, billed: Billed = NOTHING_BILLED
) -> _Ending:
    await wire.start(status, _JSON | headers | {"content-length": str(len(body))})
    await wire.write(body)
    await wire.finish()
    return _Ending("completed", status, 1, billed)


async def _cut_whole(wire: Wire, headers: dict[str, str], body: bytes, cut: int, billed: Billed) -> _Ending:
    # A provider bills a whole body in full: it was all written before the first byte of it went out.
    pieces = [body[start : start + _CUT_PIECE] for start in range(0, len(body), _CUT_PIECE)]
    length = {"content-length": str(len(body))}
    outcome, sent = await _send(wire, _JSON | headers | length, pieces, cut=min(cut, len(pieces) - 1))
    return _Ending(outcome, 200, sent, billed)


def _bill(step: Step, request_bytes: int) -> Billed:
    usage = step.usage
    said = (step.text or "") + (step.thinking or "")
    said_bytes = len(said.encode()) + sum(len(msgspec.json.encode(tool)) for tool in step.tools)
    return Billed(
        input_tokens=_estimate(request_bytes) if usage.input_tokens is None else usage.input_tokens,
        output_tokens=_estimate(said_bytes) if usage.output_tokens is None else usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def _estimate(size: int) -> int:
    return max(1, size // _BYTES_PER_TOKEN)


def _share(billed: Billed, sent: int, frames: int) -> Billed:
    if sent == 0:
        return NOTHING_BILLED
    return Billed(
        input_tokens=billed.input_tokens,
        output_tokens=-(-billed.output_tokens * sent // frames),
        cache_read_tokens=billed.cache_read_tokens,
        cache_write_tokens=billed.cache_write_tokens,
    )
