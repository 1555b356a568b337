"""AG-UI 1.0: a run is the turn of the last message that its user sent, and an answer to what it was interrupted for.

A thread's id is its session's, where it can be one; else the session's is made of it. The message's id is that of the
prompt: who sends the same messages again, after a lost connection, gets the same turn, from its beginning. What is to
be run anew is a new message.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec

from outlast.deciding import Word, decide
from outlast.errors import BadInput, Declined, SessionUnknown
from outlast.records.kinds import Ruling
from outlast.server.access import Scope
from outlast.server.operations import Call, Operation, Streamed
from outlast.server.routes.chat import BODY_BYTES, GONE, asks_of, session_of
from outlast.server.streams.ag_ui import AgUiStream, Message
from outlast.server.streams.ag_ui_answers import AgUiAnswers, Asker
from outlast.server.streams.finding import active
from outlast.server.streams.moves import Question
from outlast.session import Session


class Resumption(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`RunAgentInput`; tools, context and state of the client change nothing here."""

    thread_id: str
    run_id: str
    messages: list[dict[str, Any]]
    resume: list[Resumption] = []
    forwarded_props: Any = None


class RunQuery(msgspec.Struct, frozen=True):
    """What may stand in the address."""

    agent: str = ""
    """Which agent a session is opened for that is not there yet; `forwardedProps.agent` too."""


async def run_agent(call: Call[RunRequest, RunQuery]) -> Streamed:
    """Run an AG-UI agent: send the user's last message, or answer interrupts, and stream the turn.

    The stream ends with the turn, or with the outcome `interrupt` where it waits for a person.
    """
    asked = call.body
    last = max((at for at, one in enumerate(asked.messages) if one.get("role") == "user"), default=-1)
    if last < 0:
        raise BadInput(detail="A run needs a message of the user's.")
    session = await _session(call)
    answers = AgUiAnswers(call.services.talks, call.services.hub, session)
    message, mine = asked.messages[last], asked.messages[: last + 1]
    asker = Asker(asked.thread_id, asked.run_id, mine, asked.messages[last + 1 :])
    if asked.resume:
        return await _resume(call, session, answers, asker)
    prompt = str(message.get("id", ""))
    if not prompt:
        raise BadInput(detail="The user's message needs an id.")
    await session.send(_text(message), id=prompt, traceparent=call.traceparent)
    await call.services.woken(call.world.tenant, session.id)
    return await answers.answer(prompt, asker)


async def _session(call: Call[RunRequest, RunQuery]) -> Session:
    name = session_of(call.body.thread_id)
    try:
        return await Session.find(call.world, name)
    except SessionUnknown:
        agent = call.query.agent or str(_object(call.body.forwarded_props).get("agent", ""))
        if not agent:
            raise BadInput(
                detail="This thread is new: say for which agent, in the address or in `forwardedProps`."
            ) from None
        known = call.services.agents.get(agent, agent)
        labels = {"thread": call.body.thread_id[:200]}
        return await Session.open(call.world, name, agent=known, labels=labels, clock=call.services.clock)


def _text(message: Message) -> str:
    content: object = message.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = [_object(part) for part in parts]
    if any(part.get("type") != "text" for part in texts):
        raise BadInput(
            detail="A message is text: put files into the session's workspace, or into a document."
        )
    text = content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in texts)
    if not text:
        raise BadInput(detail="The user's last message has no text.")
    return text


# Answers to interrupts


async def _resume(
    call: Call[RunRequest, RunQuery], session: Session, answers: AgUiAnswers, asker: Asker
) -> Streamed:
    """Decide what the run was interrupted for, and tell what comes of it."""
    if Scope.DECIDE not in call.identity.scopes:
        raise Declined(
            status=403, detail=f"{call.identity.name} may not decide: this needs the scope 'decide'."
        )
    prompt = await active(session, call.services.clock.now())
    if prompt is None:
        raise BadInput(detail="No turn of this thread waits for an answer.")
    asks = await asks_of(session)  # before what is shown is read: an asking that came since is another
    shown = await answers.seen(prompt)
    beyond = 0
    for entry in call.body.resume:
        if await _rule(call, session, (shown, asks), entry):
            beyond = len(shown.chunks)
    told = [entry.interrupt_id.rsplit("-", 1)[-1] for entry in call.body.resume]
    pauses = [int(one) for one in told if one.isascii() and one.isdigit() and int(one) in shown.pauses]
    if not pauses:
        raise BadInput(detail="These interrupts are none of this thread's turn.")
    await call.services.woken(call.world.tenant, session.id)
    return await answers.answer(prompt, asker, begin=shown.pauses[max(pauses)] + 1, beyond=beyond)


async def _rule(
    call: Call[RunRequest, RunQuery],
    session: Session,
    stands: tuple[AgUiStream, Mapping[int, str]],
    entry: Resumption,
) -> bool:
    """Whether the entry counts: what it answers is still asked."""
    shown, asks = stands
    by, name = call.identity.name, entry.interrupt_id
    if name.startswith("turn-"):
        return await _let_go(call, session, entry)
    for asked, question in shown.asked.values():
        if name.rsplit("-", 1)[0] == asked.rsplit("-", 1)[0]:
            ruling, value = _ruling(question, entry)
            ask = asks.get(question.call, GONE)
            await decide(session, question.call, Word(ruling, value, by, ask=ask, id=f"ag-ui-{asked}"))
            facts = {"session": session.id, "call": question.call, "ruling": ruling}
            call.services.audit(call.identity, "decide", facts)
            return True
    return False


async def _let_go(call: Call[RunRequest, RunQuery], session: Session, entry: Resumption) -> bool:
    state = await session.state()
    if state.turn is None or state.turn.parked is None:
        return False
    if entry.status == "resolved":
        await session.retry(state.turn.turn, by=call.identity.name)
    else:
        await session.cancel(state.turn.turn, reason=f"cancelled by {call.identity.name}")
    return True


def _ruling(question: Question, entry: Resumption) -> tuple[Ruling, Any]:
    """What an answer means: a word of its own as `ruling`, else yes or no."""
    payload, given = entry.payload, _object(entry.payload)
    if question.what == "answer":
        return ("done", payload) if entry.status == "resolved" else ("failed", None)
    value = given.get("value", given.get("reason"))
    named = str(given.get("ruling", ""))
    for ruling in _RULINGS[question.what]:
        if named == ruling:
            return ruling, value
    yes = entry.status == "resolved" and payload is not False and given.get("approved") is not False
    if question.what == "allow":
        return ("allow" if yes else "deny"), value
    return ("run_again" if yes else "failed"), value


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


_RULINGS: Final[Mapping[str, tuple[Ruling, ...]]] = {
    "allow": ("allow", "deny"),
    "doubt": ("done", "run_again", "failed", "compensate"),
}

OPERATIONS: Final = (
    Operation(
        "POST",
        "/v1/ag-ui",
        run_agent,
        Scope.WRITE,
        body=RunRequest,
        query=RunQuery,
        media="text/event-stream",
        most_bytes=BODY_BYTES,
        fails=(404, 409),
    ),
)
