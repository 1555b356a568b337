"""One process of an ACP agent, from its start to the end of the turn."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, Final, TypeVar

import anyio
from acp import PROTOCOL_VERSION, schema
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError

from outlast.adapter import Attempt, Door, Process, TurnResult
from outlast.adapters.acp.client import Client
from outlast.adapters.acp.files import SessionFiles
from outlast.adapters.acp.resuming import cut_short, is_over
from outlast.adapters.acp.steps import GatewaySteps, SeenSteps, Steps
from outlast.adapters.acp.talk import SENTINEL
from outlast.adapters.acp.terminals import Terminals
from outlast.adapters.acp.transport import ProcessTransport
from outlast.adapters.program import sees_files
from outlast.errors import HarnessError
from outlast.offers import OFFERED

Said = TypeVar("Said")
START_S: Final = 60.0
"""How long an agent may take to begin, to open a session, and to its first word about a prompt."""
CLOSING_S: Final = 1.0
"""How long a cancelled agent may take to say so."""
PAST_US: Final = (
    "{name} has answered without a model call that came through outlast, so nothing of this turn is in the log. Let "
    "its model's address be that of its ModelDoor, and take logins and settings away that lead elsewhere."
)
COMMAND: Final = "/"
"""How a prompt begins that an agent may carry out by itself."""


class Driver:
    """Asks the agent, and answers it.

    Args:
        name: of the agent, for people.
        through: its model calls come through the gateway.
        asks: it asks before each tool that is not `safe`.
        environ: what its commands in terminals find.
    """

    def __init__(
        self,
        name: str,
        attempt: Attempt,
        files: SessionFiles,
        *,
        through: bool,
        asks: bool,
        environ: Mapping[str, str],
    ) -> None:
        self._environ = environ
        self._name = name
        self._attempt = attempt
        self._files = files
        self._through = through
        self._asks = asks
        self._asked = False
        """The agent has been given the prompt, or its files have it."""
        self.served: Collection[str] = ()
        """The tools that the agent was told of."""

    async def record(self) -> None:
        """Bring the mirror up to what the agent has written."""
        await self._files.mirror()
        if self._asked:
            await self._files.note(self._files.agent_session, self._attempt.turn.input)

    async def run(self, process: Process, door: Door) -> TurnResult:
        """Carry the turn to its end.

        Raises:
            HarnessError: the agent ended, or does not speak as it should.
        """
        steps = (
            GatewaySteps(self._attempt) if self._through else SeenSteps(self._attempt, f"acp:{self._name}")
        )
        async with asyncio.TaskGroup() as tasks:
            terminals = Terminals(self._attempt.processes, tasks)
            client = Client(
                self._attempt, steps, terminals, self.record, asks=self._asks, environ=self._environ
            )
            taking = tasks.create_task(client.take_updates())
            connection = ClientSideConnection(client, ProcessTransport(process))
            try:
                talk = self._converse(connection, client, steps, door)
                return await self._until_it_fails(talk, client, taking, process)
            finally:
                await connection.close()
                terminals.close()
                taking.cancel()

    async def _until_it_fails(
        self,
        talk: Coroutine[Any, Any, TurnResult],
        client: Client,
        taking: asyncio.Task[None],
        process: Process,
    ) -> TurnResult:
        async with asyncio.TaskGroup() as tasks:
            talking = tasks.create_task(_outcome_of(talk))
            await asyncio.wait({talking, client.failure, taking}, return_when=asyncio.FIRST_COMPLETED)
            if not talking.done():
                talking.cancel()
            for broken in (client.failure, taking):
                if broken.done():
                    broken.result()
        match talking.result():
            case TurnResult() as result:
                return result
            case RequestError() as error:
                # Of a provider whose failure may pass the gateway has ended the attempt already.
                return TurnResult("failed", None, f"{error} {error.data or ''}".strip()[:2000])
            case _:
                reason = f"it ended before its turn. {process.errors()}"
                raise HarnessError(harness=self._name, reason=reason)

    async def _converse(
        self, connection: ClientSideConnection, client: Client, steps: Steps, door: Door
    ) -> TurnResult:
        async with asyncio.timeout(START_S):
            capabilities = await self._initialize(connection)
            begun = await self._open(connection, client, capabilities, door)
        over = await is_over(self._attempt) if begun else None
        if (
            over is not None
            and client.told
            and client.told[-1][0] == "agent"
            and client.told[-1][1].endswith(over)
        ):
            return TurnResult("done", over)
        self._asked = True
        answer = await self._prompt(connection, await self._words(begun=begun))
        await client.all_taken()
        text = await steps.over()
        await self.record()
        if self._through and not self._came_through():
            # No other attempt would do better, and each would do again what this one has done.
            return TurnResult("failed", text, PAST_US.format(name=self._name))
        newest = await is_over(self._attempt) if self._through else text
        if answer.stop_reason == "end_turn":
            return TurnResult("done", text if newest is None else newest)
        return TurnResult("failed", text, f"{self._name} stopped: {answer.stop_reason.replace('_', ' ')}.")

    def _came_through(self) -> bool:
        calls = self._attempt.turn.calls.values()
        return self._attempt.prompt.startswith(COMMAND) or any(c.intent.kind == "model" for c in calls)

    async def _words(self, *, begun: bool) -> str:
        """What the agent is told now."""
        if begun:
            return SENTINEL if self._through else await cut_short(self._attempt)
        if self._attempt.resumed and not self._through and self._attempt.turn.calls:
            return f"{self._attempt.prompt}\n\n{await cut_short(self._attempt)}"
        return self._attempt.prompt

    async def _prompt(self, connection: ClientSideConnection, text: str) -> schema.PromptResponse:
        session = self._files.agent_session
        said = connection.prompt(session, [schema.TextContentBlock(type="text", text=text)])
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(_outcome_of(said))
            try:
                answer = await asyncio.shield(answering)
            except asyncio.CancelledError:
                # It is told, so that it ends what it has begun; its processes are killed in any case.
                with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSING_S):
                    await connection.cancel(session_id=session)
                    await asyncio.wait({answering})
                raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _initialize(self, connection: ClientSideConnection) -> schema.AgentCapabilities:
        here = sees_files(self._attempt)
        files = schema.FileSystemCapabilities(read_text_file=here, write_text_file=here)
        able = schema.ClientCapabilities(fs=files, terminal=True)
        us = schema.Implementation(name="outlast", version="1")
        said = await connection.initialize(PROTOCOL_VERSION, client_capabilities=able, client_info=us)
        if said.protocol_version != PROTOCOL_VERSION:
            reason = f"it speaks version {said.protocol_version} of the protocol, outlast {PROTOCOL_VERSION}"
            raise HarnessError(harness=self._name, reason=reason)
        return said.agent_capabilities or schema.AgentCapabilities()

    async def _open(
        self, connection: ClientSideConnection, client: Client, able: schema.AgentCapabilities, door: Door
    ) -> bool:
        """Open the session in the agent; returns whether it knows this turn's prompt already."""
        servers = self._servers(able, door)
        cwd, session = str(self._attempt.places.cwd), self._files.agent_session
        if session and await self._reopen(connection, client, able, session, servers):
            asked = self._files.was_asked(self._attempt.turn.input)
            said = [text for who, text in client.told if who == "user"]
            return asked and (not said or any(self._attempt.prompt.strip() in text for text in said))
        if self._attempt.turn.turn > 1 and session:
            raise HarnessError(
                harness=self._name, reason="it does not bring back the session's earlier turns"
            )
        opened = await connection.new_session(cwd=cwd, mcp_servers=servers)
        await self._files.note(opened.session_id)
        return False

    async def _reopen(
        self,
        connection: ClientSideConnection,
        client: Client,
        able: schema.AgentCapabilities,
        session: str,
        servers: list[Any],
    ) -> bool:
        cwd = str(self._attempt.places.cwd)
        client.loading = True
        try:
            if able.load_session:
                await connection.load_session(cwd=cwd, session_id=session, mcp_servers=servers)
            elif able.session_capabilities is not None and able.session_capabilities.resume is not None:
                await connection.resume_session(cwd=cwd, session_id=session, mcp_servers=servers)
            else:
                return False
        except RequestError:
            return False  # its files were not mirrored, or do not tell of it yet
        finally:
            client.loading = False
        return True

    def _servers(self, able: schema.AgentCapabilities, door: Door) -> list[Any]:
        if not self._attempt.tools:
            return []
        if able.mcp_capabilities is None or not able.mcp_capabilities.http:
            if self._attempt.tools.keys() <= OFFERED.keys():
                return []
            reason = "it takes no MCP server over HTTP, which the application's tools come by"
            raise HarnessError(harness=self._name, reason=reason)
        self.served = self._attempt.tools.keys()
        key = schema.HttpHeader(name="Authorization", value=f"Bearer {door.token}")
        return [schema.HttpMcpServer(type="http", name="outlast", url=door.tools_url, headers=[key])]


async def _outcome_of(talk: Coroutine[Any, Any, Said]) -> Said | RequestError | ConnectionError:
    """What a talk came to; that the agent refuses or is gone is an outcome too."""
    try:
        return await talk
    except (RequestError, ConnectionError) as error:
        return error
