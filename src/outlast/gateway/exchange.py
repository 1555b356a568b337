"""One request to the provider: heard to its end whether or not the harness still listens, then settled or made void."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import httpx

from outlast.adapter import MAIN, is_passing
from outlast.clock import Clock
from outlast.errors import AttemptLost, ModelCallFailed, TurnStopped
from outlast.gate import Point
from outlast.gateway.dialect import AnswerReader, Dialect, Heard
from outlast.gateway.doors import OpenDoor
from outlast.gateway.feed import Feed, Whole
from outlast.gateway.limits import Limits
from outlast.gateway.line import Line
from outlast.gateway.refusals import error, redirected, refused
from outlast.gateway.sse import Cutter, Frame, Malformed
from outlast.gateway.target import Asked, Asker, NoCredential, NotOffered, Target, Upstream
from outlast.gateway.target import Heard as Response
from outlast.gateway.wire import JSON, Header
from outlast.logs import logger
from outlast.records import Usage
from outlast.retry_after import retry_after_s

POLICY: Final = "model"
_ERROR_BYTES: Final = 1024 * 1024
_TAIL_S: Final = 0.2
_WAITED_FOR_S: Final = 10.0
"""The longest pause of a provider's wish in which a harness is left to wait: in a longer one nothing need run."""
_UNKNOWN_WISH: Final = (400, 422)
_WISH: Final = b"stream_options"
"""What a server names that refuses to tell what a stream has used."""

log = logger("outlast.gateway")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it goes upstream."""

    target: str
    """Path and query."""
    headers: list[Header]
    """As the harness gave them."""
    body: bytes
    model: str
    stream: bool
    counted: bytes | None = None
    """Its body in such a form that the answer tells what it has used, where `body` does not ask for that."""
    lane: str = MAIN
    """Where it belongs: `main`, a sub-agent, something beside the conversation."""


class _CameToNothing(Exception):
    """The answer is none, for this reason; `instead` is what the harness is told."""

    def __init__(self, reason: str, instead: Whole, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.instead = instead
        self.retry_after_s = retry_after_s


class _NotCounted(Exception):
    """The provider does not know how to tell what an answer has used."""


class Exchange:
    """One try at a model call.

    Args:
        again_s: after so many seconds there may be another while the harness still waits; None: there may not.
    """

    def __init__(
        self,
        door: OpenDoor,
        call: int,
        line: Line,
        limits: Limits,
        clock: Clock,
        again_s: float | None = None,
    ) -> None:
        self.feed = Feed()
        self._again_s = again_s
        self._door = door
        self._dialect: Dialect = door.dialect
        self._calls = door.attempt.calls
        self._call = call
        self._line = line
        self._limits = limits
        self._clock = clock
        self._held: list[bytes] = []
        self._usage: Usage | None = None
        self._shown = False
        self._told = False

    async def run(self, request: Outgoing, upstream: Upstream) -> None:
        """Ask, hear, settle. Whatever happens, the feed ends; only what must stop the whole attempt is raised."""
        began = self._clock.elapsed()
        try:
            await self._run(request, upstream)
        except (AttemptLost, TurnStopped) as over:
            self._door.close(str(over))
            self.feed.fail(refused(self._dialect, str(over)))
        except anyio.get_cancelled_exc_class():
            self.feed.fail(refused(self._dialect, "this attempt is over"))
            if self._usage is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.close_s):
                    await self._void_if_possible("the attempt ended before the answer did")
            raise
        except Exception as bug:
            log.exception(
                "call %d of %s could not be carried through", self._call, self._door.attempt.session
            )
            self.feed.fail(self._error(500, "The gateway could not carry this request through."))
            await self._void_if_possible(f"the gateway failed: {type(bug).__name__}")
        except BaseException:
            self.feed.cut()  # who is dying says nothing
            raise
        finally:
            took = self._clock.elapsed() - began
            log.debug(
                "call %d of %s: %s after %.3f s",
                self._call,
                self._door.attempt.session,
                self.feed.ended,
                took,
            )

    async def _run(self, request: Outgoing, upstream: Upstream) -> None:
        try:
            with anyio.fail_after(self._limits.total_s):
                answer = await self._ask(request, upstream)
        except _CameToNothing as nothing:
            await self._give_up(nothing, request.lane)
        except Malformed as nonsense:
            text = f"The provider's answer makes no sense: {nonsense}."
            await self._give_up(_CameToNothing(f"nonsense: {nonsense}", self._error(502, text)), request.lane)
        except (httpx.TimeoutException, TimeoutError) as late:
            reason = f"no answer in time ({type(late).__name__})"
            text = f"The provider gave {reason}."
            await self._give_up(_CameToNothing(reason, self._error(504, text)), request.lane)
        except httpx.HTTPError as broken:
            reason = f"the connection broke ({type(broken).__name__})"
            text = f"While asking the provider {reason}."
            await self._give_up(_CameToNothing(reason, self._error(502, text)), request.lane)
        else:
            await self._settle(answer, request.model)

    async def _ask(self, request: Outgoing, upstream: Upstream) -> Mapping[str, Any]:
        attempt = self._door.attempt
        try:
            target = await upstream.target(Asker(self._dialect.name, attempt.tenant, attempt.session))
            if request.counted is not None and target.base_url not in self._line.uncounted:
                try:
                    return await self._ask_at(target, request, request.counted)
                except _NotCounted:
                    self._line.uncounted.add(target.base_url)
            return await self._ask_at(target, request)
        except NoCredential as missing:
            raise _CameToNothing("no credential", refused(self._dialect, str(missing))) from None
        except NotOffered as nothing:
            raise _CameToNothing("not offered", refused(self._dialect, str(nothing))) from None

    async def _ask_at(
        self, target: Target, request: Outgoing, counted: bytes | None = None
    ) -> Mapping[str, Any]:
        asked = Asked("POST", request.target, request.headers, counted or request.body)
        async with self._line.ask(target, asked) as response:
            return await self._answered(request, response, counted=counted is not None)

    async def _answered(self, request: Outgoing, response: Response, *, counted: bool) -> Mapping[str, Any]:
        if not response.is_success:
            declined = await self._declined(response)
            # Nothing was made of it: a server of another age knows no such wish, and the harness had not made it.
            if counted and response.status in _UNKNOWN_WISH and _WISH in declined.instead.body:
                raise _NotCounted
            raise declined
        await self._cross(Point.IN_EFFECT)
        kind = response.kind
        if kind != ("text/event-stream" if request.stream else "application/json"):
            reason = f"it is {kind or 'of no kind'}, not what was asked for"
            raise Malformed(reason)
        if request.stream:
            return await self._listen(response, self._dialect.reader(request.model, counted=counted))
        return await self._read(response)

    async def _declined(self, response: Response) -> _CameToNothing:
        """The provider's error, to be passed on as it is: the harness decides whether to ask again."""
        if place := response.leads_elsewhere:
            return _CameToNothing(
                f"HTTP {response.status}", redirected(self._dialect, response.status, place)
            )
        body = await _limited(response, _ERROR_BYTES)
        headers = response.headers
        if not body:
            body, headers = self._dialect.error(response.status, "The provider gave no reason."), JSON
        instead = Whole(response.status, body, headers)
        wait_s = retry_after_s(response.given, self._clock.now())
        return _CameToNothing(f"HTTP {response.status}", instead, wait_s)

    # an answer at once

    async def _read(self, response: Response) -> Mapping[str, Any]:
        body = await _limited(response, self._limits.answer_bytes)
        answer = self._dialect.whole(body)
        self._held.append(body)
        self.feed.headers = response.headers
        return answer

    # an answer as a stream

    async def _listen(self, response: Response, reader: AnswerReader) -> Mapping[str, Any]:
        cutter = Cutter(self._limits.answer_bytes)
        self.feed.headers = response.headers
        chunks = response.chunks()
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self._limits.answer_bytes:
                reason = f"it is longer than {self._limits.answer_bytes:,} bytes"
                raise Malformed(reason)
            for frame in cutter.feed(chunk):
                heard = reader.read(frame)
                self._usage = reader.usage
                await self._hear(frame, heard)
                if heard.flow == "end":
                    await _to_the_end(chunks)
                    return reader.answer()
        if reader.over():
            return reader.answer()
        reason = "it ended early" if size else "it is empty"
        raise Malformed(reason)

    async def _hear(self, frame: Frame, heard: Heard) -> None:
        match heard.flow:
            case "pass" | "calm":
                self._tell(frame.raw)
            case "ours":
                pass
            case "hold" | "end":
                self.feed.hold()
                self._held.append(frame.raw)
            case "error":
                await self._stream_error(frame, heard)
        if heard.kind:
            self._calls.show(self._call, heard.kind, heard.text)
            if heard.kind == "text" and not self._shown:
                self._shown = True
                await self._cross(Point.IN_EFFECT)

    def _tell(self, raw: bytes) -> None:
        if not self.feed.status:
            self.feed.open(200, self.feed.headers)
        self.feed.put(raw)

    async def _stream_error(self, frame: Frame, heard: Heard) -> None:
        """An error in the midst of a stream reaches the harness as the event that it is."""
        await self._void(f"the provider broke off: {heard.text}")
        self._told = True
        self._tell(frame.raw)
        self.feed.end()
        raise _CameToNothing(heard.text, self._error(502, heard.text))

    # how it ends

    async def _settle(self, answer: Mapping[str, Any], model: str) -> None:
        usage = self._dialect.usage(answer, model) or self._usage
        await self._cross(Point.AFTER_EFFECT)
        await self._calls.settle_model(self._call, answer, self._dialect.asks(answer), usage)
        await self._calls.begin_unasked(self._call)
        self.feed.holding = False
        if not self.feed.status:
            self.feed.open(200, self.feed.headers)
        self.feed.put(*self._held)
        self.feed.end()

    async def _give_up(self, nothing: _CameToNothing, lane: str) -> None:
        status, asked_s = nothing.instead.status, nothing.retry_after_s
        ends = (lane != MAIN or self._door.dialogue.retries) and is_passing(status)
        if not self._told:
            await self._void(nothing.reason, asked_s)
            if ends and self._again_s is not None and not self.feed.status and asked_s <= _WAITED_FOR_S:
                self.feed.put_off(max(self._again_s, asked_s))
                return
            self.feed.fail(nothing.instead)
        if ends:
            # To the harness a sub-agent would have failed for good, and the model would be told so; and one layer
            # alone asks again.
            self._door.crash(ModelCallFailed(status=status, reason=nothing.reason))

    async def _void(self, reason: str, retry_after_s: float = 0.0) -> None:
        await self._calls.void_model(self._call, reason, self._usage, retry_after_s=retry_after_s)

    async def _void_if_possible(self, reason: str) -> None:
        """Record what the answer cost, where it has ended badly already and nothing more can be done about it."""
        try:
            await self._void(reason)
        except (AttemptLost, TurnStopped) as over:
            self._door.close(str(over))  # nobody may write any more; the next attempt retracts the call
        except Exception:
            log.exception(
                "the cost of call %d of %s could not be recorded", self._call, self._door.attempt.session
            )

    async def _cross(self, point: Point) -> None:
        await self._door.attempt.gate.cross(point, call=self._call, policy=POLICY)

    def _error(self, status: int, message: str) -> Whole:
        return error(self._dialect, status, message)


async def _limited(response: Response, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.chunks():
        body += chunk
        if len(body) > limit:
            reason = f"it is longer than {limit:,} bytes"
            raise Malformed(reason)
    return bytes(body)


async def _to_the_end(chunks: AsyncIterator[bytes]) -> None:
    """Read what may follow the last frame, which is the end of the body: only then can the connection be used again."""
    with anyio.move_on_after(_TAIL_S):
        try:
            async for _ in chunks:
                pass
        except httpx.HTTPError:
            return  # the answer is whole; how the connection ends does not matter
