"""Drives one model request of a harness through `Calls`: found in the log, joined, or asked, and only then answered."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from outlast.adapter import MAIN, SIDE, Joined, ModelAsk, Parked, Send, Served
from outlast.clock import Clock
from outlast.errors import AttemptLost, TurnStopped
from outlast.gateway.delivery import Delivery
from outlast.gateway.dialect import NotARequest, Understood
from outlast.gateway.doors import OpenDoor
from outlast.gateway.exchange import Exchange, Outgoing
from outlast.gateway.feed import Whole
from outlast.gateway.limits import Limits
from outlast.gateway.line import Line
from outlast.gateway.notes import noted
from outlast.gateway.refusals import error, refused
from outlast.gateway.target import Upstream
from outlast.gateway.wire import BodyRefused, ClientGone, Http
from outlast.logs import logger

_BLANK: Final = " \t\r"
_BEFORE: Final = ("", "\n", ">")
_BEHIND: Final = ("", "\n", "<")

log = logger("outlast.gateway")


class _Answered(Exception):
    """The request gets this answer, and is no call."""

    def __init__(self, whole: Whole) -> None:
        super().__init__(whole.status)
        self.whole = whole


class Journal:
    """Answers model requests."""

    def __init__(self, upstream: Upstream, line: Line, limits: Limits, clock: Clock) -> None:
        self._upstream = upstream
        self._line = line
        self._limits = limits
        self._clock = clock

    async def answer(self, http: Http, door: OpenDoor) -> None:
        """Answer one model request of the harness behind `door`."""
        try:
            await self._answer(http, door)
        except _Answered as answered:
            await _end(http, answered.whole)
        except (AttemptLost, TurnStopped) as over:
            door.close(str(over))
            await _end(http, refused(door.dialect, str(over)))
        except ClientGone:
            return
        except Exception:
            log.exception("a model request of %s could not be answered", door.attempt.session)
            await _end(http, error(door.dialect, 500, "The gateway could not carry this request through."))

    async def _answer(self, http: Http, door: OpenDoor) -> None:
        body = await self._body(http, door)
        await door.greeting(self._limits.hello_s)
        if door.over:
            raise _Answered(refused(door.dialect, door.over))
        try:
            request = door.dialect.read(body)
        except NotARequest as reason:
            raise _Answered(error(door.dialect, 400, f"This is no request: {reason}")) from None
        await door.recorded()
        by_log = door.dialect.mend(door.dialogue.strip(request), door.attempt.calls.result_of)
        plain = by_log.request
        mended = noted(plain, door.attempt.state.behind.notes)
        understood = _understood(door, mended)
        lane = door.dialogue.lane_of(http.headers, mended)
        _check(door, lane, mended, understood)
        # How a call has ended is what the harness says of it, and not what we say behind that.
        await _settle_untold(door, understood if mended is plain else _understood(door, plain))
        for harness_id, result in by_log.told.items():
            door.attempt.calls.correct(harness_id, result, told=True)
        if lane == MAIN:
            _carry_steers(door, understood)
        same = mended is request or mended == request
        counted = door.dialect.counted(mended)
        outgoing = Outgoing(
            target=http.target,
            headers=http.pairs,
            # The harness's own bytes, so that the provider's cache of the prompt holds.
            body=body if same else msgspec.json.encode(mended),
            counted=None if counted is mended else msgspec.json.encode(counted),
            model=understood.model,
            stream=door.dialect.streams(request),
            lane=lane,
        )
        ask = ModelAsk(lane, understood.model, understood.match, understood.frame, understood.messages)
        await self._carry_through(http, door, ask, outgoing)

    async def _carry_through(self, http: Http, door: OpenDoor, ask: ModelAsk, outgoing: Outgoing) -> None:
        delivery = Delivery(http, door, self._limits, stream=outgoing.stream)
        pauses = iter(self._limits.again_s)
        while True:
            match await door.attempt.calls.open_model(ask):
                case Served(call, answer):
                    await delivery.serve(call, answer)
                    return
                case Joined(call, waiting):
                    answer = await delivery.join(waiting)
                    if answer is not None:
                        await delivery.serve(call, answer)
                        return
                case Send(call):
                    again_s = next(pauses, None)
                    exchange = Exchange(door, call, self._line, self._limits, self._clock, again_s)
                    door.tasks.start_soon(exchange.run, outgoing, self._upstream)
                    again_s = await delivery.pour(call, exchange.feed)
                    if again_s is None:
                        return
                    await delivery.rest(again_s)
                case Parked(why):
                    door.close(why)
                    raise _Answered(refused(door.dialect, why))

    async def _body(self, http: Http, door: OpenDoor) -> bytes:
        try:
            return await http.asked(self._limits.request_bytes, self._limits.body_s)
        except BodyRefused as refusal:
            raise _Answered(error(door.dialect, refusal.status, str(refusal))) from None


async def _end(http: Http, whole: Whole) -> None:
    if http.started:
        await http.drop()
        return
    try:
        await http.whole(whole.status, whole.body, whole.headers)
    except ClientGone:
        return


def _understood(door: OpenDoor, request: Mapping[str, Any]) -> Understood:
    places = door.attempt.places
    return door.dialect.understand(request, [str(places.home), str(places.cwd)])


def _check(door: OpenDoor, lane: str, request: Mapping[str, Any], understood: Understood) -> None:
    """Refuse a request that shows that one of the gates before a tool is gone."""
    complaint = door.dialogue.complaint(lane, request)
    if complaint is not None:
        raise _Answered(refused(door.dialect, complaint))
    calls = door.attempt.calls
    for harness_id in understood.results:
        granted = calls.intent_of(harness_id) is not None or calls.result_of(harness_id) is not None
        if not granted and not _begins_the_turn(door, lane, understood):
            text = f"the request brings a result of the tool call {harness_id!r}, which was not granted"
            raise _Answered(refused(door.dialect, text))


def _begins_the_turn(door: OpenDoor, lane: str, understood: Understood) -> bool:
    """Whether the turn begins with this request: what results it brings, an earlier turn has left behind.

    Then no answer stands behind the prompt, and the prompt is a text by itself: inside other words, of a reminder or a
    steer, a short one may stand in any request. A sub-agent has no earlier turn.
    """
    prompt = door.attempt.prompt.strip()
    sub_agent = lane != MAIN and not lane.startswith(SIDE)
    return not sub_agent and any(said.strip() == prompt for said in understood.newest)


def _carry_steers(door: OpenDoor, understood: Understood) -> None:
    for steer in list(door.attempt.steers.waiting()):
        text = steer.text.strip()
        if not text or any(_is_said(text, said) for said in understood.earlier):
            continue
        if any(_is_said(text, said) for said in understood.newest):
            door.attempt.steers.carried(steer.input)


def _is_said(text: str, said: str) -> bool:
    """Whether `text` stands in `said` on lines of its own or between tags: harnesses wrap what they bring."""
    at = said.find(text)
    while at >= 0:
        begin, end = at, at + len(text)
        while begin > 0 and said[begin - 1] in _BLANK:
            begin -= 1
        while end < len(said) and said[end] in _BLANK:
            end += 1
        if said[begin - 1 : begin] in _BEFORE and said[end : end + 1] in _BEHIND:
            return True
        at = said.find(text, at + 1)
    return False


async def _settle_untold(door: OpenDoor, understood: Understood) -> None:
    """Settle calls of which only this request tells how they ended: those that no hook saw begin or end."""
    for harness_id, result in understood.results.items():
        await door.attempt.calls.settle_tool(harness_id, result)
