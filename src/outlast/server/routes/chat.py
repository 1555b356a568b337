"""Chats of the AI SDK: what `useChat` sends becomes inputs of a session, and a turn its answer.

A chat's id is its session's, where it can be one; else the session's is made of it. A message's id is that of the
prompt, so a repeated request is the same turn. The log is never rewritten: a message that was edited, or is to be
answered again, is a new prompt behind what was there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import msgspec
from starlette.responses import Response

from outlast.awaited import awaited_by
from outlast.deciding import Word, decide
from outlast.errors import BadInput, BadSessionId, Declined, InputConflict, SessionUnknown
from outlast.ids import check_session_id, derived_id, digest
from outlast.records.kinds import Ruling
from outlast.server.access import Scope
from outlast.server.operations import Call, Nothing, Operation, Streamed
from outlast.server.streams.ai_sdk import UiStream
from outlast.server.streams.finding import active
from outlast.server.streams.ui_answers import Run, UiAnswers, read_run
from outlast.session import Session

BODY_BYTES: Final = 16 * 1024 * 1024
"""A chat sends all its messages each time."""
GONE: Final = "none"
"""An asking that no call has."""
AGAIN_LIMIT: Final = 1_000
"""So often a message can be answered again."""


class ChatMessage(msgspec.Struct, frozen=True):
    """A message as the SDK keeps it; of its parts text counts, and what was said about tool calls."""

    id: str
    role: str
    parts: list[dict[str, Any]] = []


class ChatRequest(msgspec.Struct, frozen=True, rename="camel"):
    """What a transport of the SDK sends."""

    messages: list[ChatMessage]
    id: str = ""
    """Of the chat. `WorkflowChatTransport` sends none by itself: give it one in `body`."""
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    agent: str = ""
    """Which agent a session is opened for that is not there yet."""


class ChatQuery(msgspec.Struct, frozen=True, rename="camel"):
    """What may stand in the address of a transport."""

    agent: str = ""
    start_index: int | None = None
    """How many chunks the client has; negative: so many from the end."""


async def chat(call: Call[ChatRequest, ChatQuery]) -> Streamed | Response:
    """Send the last message of a chat, or what was decided about its tool calls, and stream the turn.

    The stream ends with the turn, or where it waits for a person.
    """
    asked = call.body
    if not asked.messages:
        raise BadInput(detail="A chat needs a message: `messages` is empty.")
    session = await _session(call)
    answers = UiAnswers(call.services.talks, call.services.hub, session)
    run, beyond = await _decide(call, session, answers)
    if asked.messages[-1].role == "user":
        prompt = await _prompt(call, session)
        await call.services.woken(call.world.tenant, session.id)
        return await answers.whole(prompt)
    if asked.trigger == "regenerate-message":
        raise BadInput(detail="To be answered again a chat ends with the user's message.")
    if run is None:
        raise BadInput(
            detail="The last message is not the user's, and answers nothing that the turn has asked about."
        )
    await call.services.woken(call.world.tenant, session.id)
    return await answers.behind(run, beyond=beyond)


async def stream(call: Call[Nothing, ChatQuery]) -> Streamed | Response | None:
    """Go on with the stream of a chat, by its own id or by that of a run.

    Without an index the open turn is told from its beginning, or one that ended within the last minutes.
    """
    run = read_run(call.path["chat"])
    name = session_of(call.path["chat"]) if run is None else run.session
    try:
        session = await Session.find(call.world, name)
    except SessionUnknown:  # a chat in which nobody has said anything, which a page may well ask about
        return None
    answers = UiAnswers(call.services.talks, call.services.hub, session)
    start = _start(call)
    if run is None:
        prompt = await active(session, call.services.clock.now())
        if prompt is None:
            return None
        run = Run(session.id, prompt)
    return await answers.from_index(run, start)


def _start(call: Call[Nothing, ChatQuery]) -> int:
    """The index that is asked for: in the query, or behind the last that an `EventSource` has had."""
    if call.query.start_index is not None:
        return call.query.start_index
    last = call.request.headers.get("last-event-id", "")
    if last and not (last.isascii() and last.isdigit() and len(last) < 16):
        raise BadInput(detail="`Last-Event-ID` is the number of a chunk.")
    return int(last) + 1 if last else 0


def session_of(chat_id: str) -> str:
    """The id of a chat's session."""
    try:
        return check_session_id(chat_id)
    except BadSessionId:
        return derived_id("chat", chat_id.encode())


async def _session(call: Call[ChatRequest, ChatQuery]) -> Session:
    """The chat's session, opened if it is not there.

    Raises:
        BadInput: nobody says for which agent.
    """
    if not call.body.id:
        raise BadInput(detail="A chat needs an `id`: give the transport one, for example in its `body`.")
    found = session_of(call.body.id)
    try:
        return await Session.find(call.world, found)
    except SessionUnknown:
        agent = call.body.agent or call.query.agent
        if not agent:
            raise BadInput(
                detail="This chat is new: say for which agent, as `agent` in the body or in the address."
            ) from None
        labels = {"chat": call.body.id[:200]}
        return await Session.open(call.world, found, agent=agent, labels=labels, clock=call.services.clock)


async def _prompt(call: Call[ChatRequest, ChatQuery], session: Session) -> str:
    """Id of the prompt that the last message is, once that is durable."""
    message = call.body.messages[-1]
    text = _text(message)
    if call.body.trigger == "regenerate-message":
        return await _again(call, session, message.id, text)
    try:
        await session.send(text, id=message.id, traceparent=call.traceparent)
    except InputConflict:  # the message was edited
        edited = f"{message.id}~{digest(text.encode())[:8]}"
        await session.send(text, id=edited, traceparent=call.traceparent)
        return edited
    return message.id


async def _again(call: Call[ChatRequest, ChatQuery], session: Session, message: str, text: str) -> str:
    """Answer a message again; one that is still being answered goes on, and is let go on if it is stuck."""
    state = await session.state()
    turn = state.turn
    if turn is not None and _is_of(message, turn.input):
        if turn.parked is not None and turn.parked.why != "decision":
            await session.retry(turn.turn, by=call.identity.name)
        return turn.input
    waiting = [
        *(one.input for one in state.queue),
        *(one.id for one in await session.world.inputs(session.id)),
    ]
    for prompt in waiting:
        if _is_of(message, prompt):
            return prompt
    for nth in range(1, AGAIN_LIMIT):
        again = f"{message}~again-{nth}"
        found = await session.world.find_input(session.id, again)
        if found is None or found.consumed_by is None:
            await session.send(text, id=again, traceparent=call.traceparent)
            return again
    raise BadInput(detail=f"A message can be answered again {AGAIN_LIMIT} times.")


def _is_of(message: str, prompt: str) -> bool:
    """Whether a prompt is this message, as it was sent, edited or to be answered again."""
    return prompt == message or prompt.startswith(f"{message}~")


def _text(message: ChatMessage) -> str:
    kinds = {part.get("type") for part in message.parts}
    if "file" in kinds:
        raise BadInput(
            detail="A message is text: put files into the session's workspace, or into a document."
        )
    text = "".join(str(part.get("text", "")) for part in message.parts if part.get("type") == "text")
    if not text:
        raise BadInput(detail="The last message has no text.")
    return text


# What was said about tool calls


async def _decide(
    call: Call[ChatRequest, ChatQuery], session: Session, answers: UiAnswers
) -> tuple[Run | None, int]:
    """Decide what the messages say about calls that the turn asks about; from where on it is to be shown then."""
    said = [part for message in call.body.messages if message.role == "assistant" for part in message.parts]
    said = [part for part in said if _is_word(part)]
    prompt = await active(session, call.services.clock.now()) if said else None
    if prompt is None:
        return None, 0
    asks = await asks_of(session)  # before what is shown is read: an asking that came since is another
    shown = await answers.seen(prompt)
    words = [word for part in said if (word := _word(part, shown)) is not None]
    if words and Scope.DECIDE not in call.identity.scopes:
        raise Declined(
            status=403, detail=f"{call.identity.name} may not decide: this needs the scope 'decide'."
        )
    beyond = len(shown.chunks) if shown.resting and not shown.over else 0
    for asked, number, ruling, value in words:
        by = call.identity.name
        word = Word(ruling, value, by, ask=asks.get(number, GONE), id=f"chat-{asked}")
        await decide(session, number, word)
        call.services.audit(
            call.identity, "decide", {"session": session.id, "call": number, "ruling": ruling}
        )
    pause = _pause(said, shown)
    if not pause:
        return None, 0
    return Run(session.id, prompt, shown.pauses[pause] + 1), beyond if words else 0


async def asks_of(session: Session) -> Mapping[int, str]:
    """By call that waits for a word: which asking stands."""
    return {one.call: one.ask for one in await awaited_by(session, await session.state()) if one.ask}


def _is_word(part: Mapping[str, Any]) -> bool:
    """Whether a part says something about a call that a person may be asked about."""
    kind, state = str(part.get("type", "")), part.get("state")
    if kind != "dynamic-tool" and not kind.startswith("tool-"):
        return False
    answered = kind == "tool-ask" or part.get("toolName") == "ask"
    return state == "approval-responded" or (answered and state in {"output-available", "output-error"})


def _word(part: Mapping[str, Any], shown: UiStream) -> tuple[str, int, Ruling, Any] | None:
    """Under which id which call is ruled how; None: it is not asked about, or not any more."""
    number = _call(part)
    asked, question = shown.asked.get(number, ("", None))
    if question is None:
        return None
    if question.what == "answer":
        if part.get("state") == "output-error":
            return asked, number, "failed", part.get("errorText")
        return (
            (asked, number, "done", part.get("output")) if part.get("state") == "output-available" else None
        )
    approval = _approval(part)
    if str(approval.get("id", "")).rsplit("-", 1)[0] != asked.rsplit("-", 1)[0]:
        return None
    yes: Ruling = "allow" if question.what == "allow" else "run_again"
    no: Ruling = "deny" if question.what == "allow" else "failed"
    return asked, number, yes if approval.get("approved") is True else no, approval.get("reason")


def _pause(said: Sequence[Mapping[str, Any]], shown: UiStream) -> int:
    """The newest pause that the parts know of; 0: none of this turn."""
    told = [str(_approval(part).get("id", "")).rsplit("-", 1)[-1] for part in said]
    numbers = [int(one) for one in told if one.isascii() and one.isdigit()]
    if not numbers and shown.pauses:
        return max(shown.pauses)
    return max((number for number in numbers if number in shown.pauses), default=0)


def _approval(part: Mapping[str, Any]) -> Mapping[str, Any]:
    approval = part.get("approval")
    return cast("Mapping[str, Any]", approval) if isinstance(approval, dict) else {}


def _call(part: Mapping[str, Any]) -> int:
    number = str(part.get("toolCallId", "")).removeprefix("call-")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else 0


OPERATIONS: Final = (
    Operation(
        "POST",
        "/v1/chat",
        chat,
        Scope.WRITE,
        body=ChatRequest,
        query=ChatQuery,
        media="text/event-stream",
        most_bytes=BODY_BYTES,
        fails=(404, 409),
    ),
    Operation(
        "GET",
        "/v1/chat/{chat}/stream",
        stream,
        Scope.READ,
        query=ChatQuery,
        media="text/event-stream",
        fails=(410,),
    ),
)
