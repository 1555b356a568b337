"""Our HTTP server between harnesses and their models, their tools and their hooks: one per worker, many attempts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from starlette.types import Receive, Scope, Send

from outlast.adapter import Attempt, Dialogue, Door
from outlast.clock import Clock
from outlast.errors import BadSettings
from outlast.gateway.anthropic import AnthropicMessages
from outlast.gateway.dialect import Dialect
from outlast.gateway.doors import NOT_OPEN, Doors, OpenDoor
from outlast.gateway.hooks import Hooks, generic_deny
from outlast.gateway.journal import Journal
from outlast.gateway.limits import Limits
from outlast.gateway.line import open_line
from outlast.gateway.openai_chat import OpenAIChat
from outlast.gateway.openai_responses import OpenAIResponses
from outlast.gateway.passage import Passage
from outlast.gateway.refusals import error
from outlast.gateway.server import serving
from outlast.gateway.strangers import Strangers
from outlast.gateway.target import Upstream
from outlast.gateway.tools import ToolServer
from outlast.gateway.wire import LAST, ClientGone, Http
from outlast.groups import task_group
from outlast.ids import new_token
from outlast.logs import logger
from outlast.prices import PriceTable
from outlast.sandbox import SESSION_HEADER, session_mark

OURS: Final = "/outlast/"
HOOKS: Final = OURS + "hooks"
TOOLS: Final = OURS + "tools"

log = logger("outlast.gateway")


@dataclass(frozen=True, slots=True)
class _Guest:
    door: OpenDoor
    tools: ToolServer


class _App:
    """The ASGI application: finds who asks, and what for."""

    def __init__(
        self,
        doors: Doors[_Guest],
        strangers: Strangers,
        journal: Journal,
        passage: Passage,
        dialects: Sequence[Dialect],
        limits: Limits,
    ) -> None:
        self._doors = doors
        self._strangers = strangers
        self._dialects = dialects
        self._journal = journal
        self._passage = passage
        self._hooks = Hooks(limits)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        http = Http(scope, receive, send, self._limits.send_s)
        # Where a program speaks of models, its API key is the token; hooks and tools are set up with a bearer.
        tokens = [http.bearer] if http.path.startswith(OURS) else [http.api_key, http.bearer]
        guest = _unless_from_another(http, self._doors.find(*tokens))
        try:
            await self._answer(http, guest)
        except ClientGone:
            return
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as crash:
            await http.drop()
            if guest is None or isinstance(crash, Exception):
                log.exception("a request could not be answered")
            else:
                guest.door.crash(crash)

    async def _answer(self, http: Http, guest: _Guest | None) -> None:
        hook = http.path.removeprefix(HOOKS + "/") if http.path.startswith(HOOKS + "/") else None
        if guest is None:
            await self._turn_away(http, hook)
            return
        if http.connection is not None:
            self._strangers.left(http.connection)
        if not http.target.startswith("/"):
            # What stands behind the provider's address must not change whose address it is: `@elsewhere/` would.
            await http.whole_json(400, _no_path())
            return
        door = guest.door
        if http.wants_socket:
            # A harness that would rather speak over a WebSocket speaks HTTP at once when it hears this.
            whole = error(door.dialect, 426, "WebSockets are not served here: ask over HTTP.")
            await http.whole(whole.status, whole.body, (*LAST, ("upgrade", "HTTP/1.1")))
            return
        with door.place(self._limits.requests) as free:
            if free:
                await self._let_in(http, guest, hook)
            elif hook is not None:
                await http.whole_json(200, generic_deny("Too many requests of this attempt are under way."))
            else:
                await _reply(http, door, 429, "Too many requests of this attempt are under way.")

    async def _turn_away(self, http: Http, hook: str | None) -> None:
        if hook is not None:
            await self._hooks.answer(http, None, hook)
            return
        await http.discard(self._limits.request_bytes, self._limits.stranger_s)
        # The token says nothing of who asks, but the path does: a harness whose attempt is over must stop at once.
        spoken = (dialect for dialect in self._dialects if dialect.is_call(http.method, http.path))
        dialect = next(spoken, self._dialects[0])
        await http.whole(dialect.refusal_status, dialect.refusal(NOT_OPEN), LAST)

    async def _let_in(self, http: Http, guest: _Guest, hook: str | None) -> None:
        door = guest.door
        if hook is not None:
            await self._hooks.answer(http, door, hook)
        elif http.path == TOOLS:
            await guest.tools.answer(http)
        elif door.dialect.is_call(http.method, http.path):
            await self._journal.answer(http, door)
        elif door.dialect.may_pass(http.method, http.path):
            await self._passage.answer(http, door)
        else:
            await _reply(http, door, 404, self._why_not(http, door.dialect))

    def _why_not(self, http: Http, spoken: Dialect) -> str:
        """What a harness is told of a request that does not go through."""
        asked = f"outlast lets no {http.method} {http.path} through"
        other = [dialect.name for dialect in self._dialects if dialect.is_call(http.method, http.path)]
        if other:
            return f"{asked}: this attempt's model is asked in the dialect {spoken.name!r}, not {other[0]!r}."
        return (
            f"{asked}: only model requests, which are written down, the counting of tokens and the list of models go "
            "to the provider. Whatever else it offers wants a key of your own."
        )


class HttpGateway:
    """See `outlast.adapter.Gateway`.

    Attributes:
        base_url: where it listens, without a slash at its end.
    """

    def __init__(
        self, base_url: str, doors: Doors[_Guest], dialects: Sequence[Dialect], limits: Limits
    ) -> None:
        self.base_url = base_url
        self._doors = doors
        self._dialects: Mapping[str, Dialect] = {dialect.name: dialect for dialect in dialects}
        self._limits = limits

    async def address(self) -> str:
        return self.base_url

    @asynccontextmanager
    async def admit(self, attempt: Attempt, dialogue: Dialogue, token: str = "") -> AsyncGenerator[Door]:
        """Let the harness of `attempt` in until the context ends; afterwards its token is refused.

        What is under way then is cut off.

        Args:
            token: of a program that outlives its attempts; by default a fresh one.

        Raises:
            BadSettings: nobody here speaks the dialect of `dialogue`.
        """
        dialect = self._dialects.get(dialogue.dialect)
        if dialect is None:
            reason = f"only {', '.join(sorted(self._dialects))} can be spoken"
            raise BadSettings(name="dialect", value=dialogue.dialect, reason=reason, source="an adapter")
        token = token or new_token()
        async with task_group() as tasks:
            door = OpenDoor(attempt, dialogue, dialect, tasks)
            tools = ToolServer(door, self._limits)
            await tasks.start(tools.serve)
            with self._doors.opened(token, _Guest(door, tools)):
                try:
                    yield Door(self.base_url, token, self.base_url + HOOKS, self.base_url + TOOLS)
                finally:
                    door.close("this attempt is over")
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_gateway(
    *,
    upstream: Upstream,
    clock: Clock,
    host: str = "127.0.0.1",
    unix: Path | None = None,
    limits: Limits | None = None,
    dialects: Sequence[Dialect] | None = None,
) -> AsyncGenerator[HttpGateway]:
    """Serve a gateway while the context lasts, on a free port of `host` and, if given, on the socket `unix`.

    Args:
        upstream: names the provider and the credential for each request.
        clock: measures how long calls take.
        host: the address to listen on.
        unix: path of a unix socket to listen on besides, readable for this user only.
        limits: how long to wait and how much to take; the defaults fit a worker.
        dialects: what harnesses may speak; by default Anthropic's Messages, OpenAI's Responses and Chat
            Completions, at list price (`every_dialect`).

    Raises:
        OSError: it cannot listen there.
    """
    limits = limits or Limits()
    dialects = dialects or every_dialect(PriceTable())
    async with open_line(limits) as line:
        doors: Doors[_Guest] = Doors()
        strangers = Strangers(limits.strangers, limits.stranger_s)
        journal, passage = Journal(upstream, line, limits, clock), Passage(upstream, line, limits)
        app = _App(doors, strangers, journal, passage, dialects, limits)
        async with serving(app, host, unix, limits.close_s, strangers) as base_url:
            yield HttpGateway(base_url, doors, dialects, limits)


def every_dialect(prices: PriceTable) -> Sequence[Dialect]:
    """What harnesses may speak, at these prices."""
    openai = prices.openai
    return [AnthropicMessages(prices.anthropic), OpenAIResponses(openai), OpenAIChat(openai)]


def _unless_from_another(http: Http, guest: _Guest | None) -> _Guest | None:
    """Nobody where a token came out of the sandbox of another session than the one that it was made for."""
    mark = http.headers.get(SESSION_HEADER)
    if guest is None or mark is None:
        return guest
    attempt = guest.door.attempt
    return guest if mark == session_mark(attempt.tenant, attempt.session) else None


async def _reply(http: Http, door: OpenDoor, status: int, message: str) -> None:
    whole = error(door.dialect, status, message)
    await http.whole(whole.status, whole.body, whole.headers)


def _no_path() -> Mapping[str, object]:
    message = "The target of a request must begin with a slash."
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
