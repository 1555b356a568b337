"""What an editor may ask of us (`acp.interfaces.Agent`)."""

import functools
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import acp
import anyio
import anyio.abc
from acp import schema
from acp.exceptions import RequestError

from outlast.adapter import Agent
from outlast.cli.acp.conversation import Answered, Conversation
from outlast.cli.acp.listed import info_of
from outlast.cli.acp.prompts import prompt_text
from outlast.cli.acp.screen import Screen
from outlast.cli.companion import Companion
from outlast.cli.machine import machine_id
from outlast.cli.options import Setup
from outlast.cli.providers import refuse_unusable
from outlast.cli.run import DIRECTORY
from outlast.cli.text import short
from outlast.cli.workspaces import workspace_of
from outlast.engine.places import fresh_home
from outlast.errors import BadInput, NotFound, OutlastError, SessionExists
from outlast.ids import new_id
from outlast.records import SessionOpened
from outlast.session import Session
from outlast.workspaces.local import local
from outlast.world import Cursor, World

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
_INVALID: Final = -32602
_NOT_FOUND: Final = -32002
_FAILED: Final = -32603
_PAGE: Final = 50
_STOPS: Final[dict[str, schema.StopReason]] = {
    "done": "end_turn",
    "asks": "end_turn",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    agent: Agent
    reference: str
    """As the command line names the agent."""
    model: str | None
    workspace: str | None
    allow: tuple[str, ...]
    detached: bool
    live: bool = False
    """Text is shown while it comes, though it may be retracted."""


def told(
    method: "Callable[Concatenate[Desk, Parameters], Awaitable[Answer]]",
) -> "Callable[Concatenate[Desk, Parameters], Awaitable[Answer]]":
    """Answer our errors as JSON-RPC does, with their sentence."""

    @functools.wraps(method)
    async def telling(desk: "Desk", *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        try:
            return await method(desk, *args, **kwargs)
        except OutlastError as error:
            code = _INVALID if isinstance(error, BadInput | SessionExists) else _FAILED
            code = _NOT_FOUND if isinstance(error, NotFound) else code
            raise RequestError(code, str(error), {"error": type(error).__name__}) from error

    return telling


class Desk:
    """Answers one editor. Sessions that it opens outlive it."""

    def __init__(self, setup: Setup, world: World, wish: Wish, tasks: anyio.abc.TaskGroup) -> None:
        self._setup = setup
        self._world = world
        self._wish = wish
        self._tasks = tasks
        self._machine = machine_id(setup.settings.data)
        self._open: dict[str, Conversation] = {}
        self._screen: Screen | None = None

    def on_connect(self, conn: acp.Client) -> None:
        """The editor is there."""
        self._screen = Screen(conn)

    @property
    def screen(self) -> Screen:
        assert self._screen is not None
        return self._screen

    # -- what we can do

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        """Say what we can do: version 1 of the protocol."""
        if client_info is not None:
            self.screen.name = client_info.name
        able = schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=False, audio=False, embedded_context=True),
            mcp_capabilities=schema.McpCapabilities(http=False, sse=False),
            session_capabilities=schema.SessionCapabilities(
                list=schema.SessionListCapabilities(),
                fork=schema.SessionForkCapabilities(),
                resume=schema.SessionResumeCapabilities(),
                close=schema.SessionCloseCapabilities(),
            ),
        )
        title = f"{self._wish.agent.name} (outlast)"
        return schema.InitializeResponse(
            protocol_version=1,
            agent_capabilities=able,
            auth_methods=[],
            agent_info=schema.Implementation(name="outlast", title=title, version=version("outlast")),
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> schema.AuthenticateResponse:
        """There is nothing to log in to: credentials are the workers'."""
        raise RequestError.method_not_found("authenticate")

    # -- sessions

    @told
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        """Open a session that works in the editor's directory, or where its agent or the command line says."""
        directory = _directory(cwd)
        wish, settings = self._wish, self._setup.settings
        self._note_servers(mcp_servers)
        said = wish.workspace
        place = None if said is not None or wish.agent.workspace is not None else directory
        workspace = workspace_of(wish.agent, said, place, wish.allow, self._machine)
        chosen = {"model": wish.model} if wish.model else {}
        if not wish.detached:
            adapter = wish.agent.adapter
            refuse_unusable(settings, os.environ, adapter, {**adapter.settings(), **chosen})
        name = new_id(_plain(directory.name) or "session")
        session = await Session.open(
            self._world,
            name,
            agent=wish.agent,
            workspace=workspace,
            home=fresh_home(settings.data, name),
            settings=chosen,
            labels={DIRECTORY: str(directory)},
        )
        conversation = await self._conversation(session)
        await conversation.skip()
        self._begin(conversation)
        return schema.NewSessionResponse(session_id=name)

    @told
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[Any] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        """Show the whole of a session, then whatever comes: a turn that is open goes on before the editor's eyes."""
        conversation = await self._found(session_id, cwd)
        self._note_servers(mcp_servers)
        await conversation.replay()
        self._begin(conversation)
        return schema.LoadSessionResponse(field_meta=await _standing(conversation.session))

    @told
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        """Show what comes of a session from now on, or behind the cursor in `_meta` that an update had."""
        conversation = await self._found(session_id, cwd)
        self._note_servers(mcp_servers)
        after = _mark(kwargs, "cursor")
        await conversation.skip(Cursor.parse(after) if after else None)
        self._begin(conversation)
        return schema.ResumeSessionResponse(field_meta=await _standing(conversation.session))

    @told
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[Any] | None = None,
        **kwargs: Any,
    ) -> schema.ForkSessionResponse:
        """Open a session with the past of another; where that works in a directory, it works in the editor's."""
        source = await Session.find(self._world, session_id, agent=self._wish.agent)
        opened = await self._opening(source)
        directory = _directory(cwd)
        place = local(directory, host=self._machine) if opened.workspace.get("kind") == "local" else None
        made = await source.fork(workspace=place, labels={DIRECTORY: str(directory)})
        conversation = await self._conversation(made)
        await conversation.skip()
        self._begin(conversation)
        return schema.ForkSessionResponse(session_id=made.id)

    @told
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """The sessions of this agent that were begun in a directory, newest change first."""
        labels = {DIRECTORY: str(_directory(cwd))} if cwd else None
        page = await self._world.list(after=cursor, limit=_PAGE, labels=labels)
        ours = [
            one for one in page.sessions if one.agent == self._wish.agent.name and DIRECTORY in one.labels
        ]
        found = [await info_of(self._world, head) for head in ours]
        if page.next is None:
            return schema.ListSessionsResponse(sessions=found)
        return schema.ListSessionsResponse(sessions=found, next_cursor=page.next)

    @told
    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse:
        """Cancel what the session is doing, as ACP has it, and let it go. It can be loaded again."""
        conversation = self._open.pop(session_id, None)
        if conversation is not None:
            await conversation.close()
        return schema.CloseSessionResponse()

    # -- turns

    @told
    async def prompt(self, session_id: str, prompt: Sequence[Any], **kwargs: Any) -> schema.PromptResponse:
        """Begin a turn, and answer when it is over, or waits for the user's next words."""
        conversation = self._opened(session_id)
        answered = await conversation.prompt(prompt_text(prompt), _mark(kwargs, "id") or new_id("in"))
        if answered.status not in _STOPS:
            raise RequestError(
                _FAILED, answered.error or f"The turn ended as {answered.status}.", _about(answered)
            )
        return schema.PromptResponse(
            stop_reason=_STOPS[answered.status], field_meta={"outlast": _about(answered)}
        )

    @told
    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """End the turn that is open."""
        await self._opened(session_id).cancel()

    # -- inside

    def leave(self) -> None:
        """The editor is gone; what is under way goes on."""
        for conversation in self._open.values():
            conversation.leave()

    def _opened(self, session: str) -> Conversation:
        if session not in self._open:
            raise RequestError(
                _NOT_FOUND, f"The session {session} is not open here: load or resume it first."
            )
        return self._open[session]

    def _begin(self, conversation: Conversation) -> None:
        self._open[conversation.session.id] = conversation
        self._tasks.start_soon(conversation.run)

    async def _found(self, name: str, cwd: str) -> Conversation:
        session = await Session.find(self._world, name, agent=self._wish.agent)
        opened = await self._opening(session)
        here = str(_directory(cwd).resolve())
        if opened.workspace.get("kind") == "local" and opened.cwd != here:
            raise SessionExists(session=name, difference=f"it works in {opened.cwd}, not {here}")
        before = self._open.pop(name, None)
        if before is not None:
            before.leave()
        return await self._conversation(session)

    async def _opening(self, session: Session) -> SessionOpened:
        """How a session was opened.

        Raises:
            SessionExists: for another agent.
        """
        opened = (await session.state()).opened
        if opened is None or opened.agent != self._wish.agent.name:
            has = "nobody" if opened is None else repr(opened.agent)
            raise SessionExists(
                session=session.id, difference=f"its agent is {has}, not {self._wish.agent.name!r}"
            )
        return opened

    async def _conversation(self, session: Session) -> Conversation:
        opened = await self._opening(session)
        companion = None
        if not self._wish.detached:
            agents = (self._wish.reference,) if ":" in self._wish.reference else ()
            environ = {**os.environ, "OUTLAST_WORLD": self._setup.settings.world_url}
            companion = Companion((*agents, "--session", session.id), environ, self.screen.note)
        return Conversation(
            session,
            self.screen,
            self._setup.clock,
            opened.cwd,
            companion,
            self._setup.wake,
            self._wish.live,
        )

    def _note_servers(self, servers: Sequence[Any] | None) -> None:
        if servers:
            names = ", ".join(str(getattr(one, "name", "")) for one in servers)
            self.screen.note(
                f"The editor's MCP servers ({names}) are not offered: give them to the agent itself."
            )


def _about(answered: Answered) -> dict[str, Any]:
    facts = {"input": answered.input, "turn": answered.turn}
    return {**facts, "waits": "answer"} if answered.status == "asks" else facts


async def _standing(session: Session) -> dict[str, Any]:
    """Whether a turn goes on, for `_meta`."""
    turn = (await session.state()).turn
    return {"outlast": {"open": None if turn is None else {"turn": turn.turn, "input": turn.input}}}


def _mark(given: dict[str, Any], name: str) -> str:
    """What stands in `_meta` under `outlast`."""
    ours = given.get("outlast")
    return str(cast("dict[str, Any]", ours).get(name) or "") if isinstance(ours, dict) else ""


def _directory(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute() or not path.is_dir():
        raise BadInput(
            detail=f"cwd must be the absolute path of a directory that is there, not {short(cwd, 200)!r}."
        )
    return path.resolve()


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())[:20]
