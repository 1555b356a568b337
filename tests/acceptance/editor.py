"""An editor: the official client of the Agent Client Protocol, with `outlast acp` as its agent in a process."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import acp
import anyio
from acp import schema
from acp.client.connection import ClientSideConnection

from tests.acceptance.counter import Counter

LIMIT_S = 60.0


@dataclass
class Desktop:
    """What an editor shows, and how its user answers (`acp.interfaces.Client`)."""

    answer: Callable[[list[schema.PermissionOption]], str | None] | None = None
    """Chooses an option by its id; None: the user does nothing."""
    updates: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    asked: list[schema.ToolCallUpdate] = field(default_factory=list[schema.ToolCallUpdate])
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append((session_id, update))
        self._tell()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(tool_call)
        self._tell()
        if self.answer is None:
            await anyio.sleep_forever()
        assert self.answer is not None
        chosen = self.answer(options)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    def on_connect(self, conn: Any) -> None:
        """It is called by nobody but us."""

    async def until(self, seen: Callable[[], object]) -> None:
        """Wait until something is on the screen."""
        with anyio.fail_after(LIMIT_S):
            while not seen():
                self._news = anyio.Event()
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()

    def kinds(self) -> list[str]:
        return [update.session_update for _, update in self.updates]

    def said(self, kind: str = "agent_message_chunk") -> list[str]:
        """The texts of chunks, one by one."""
        return [update.content.text for _, update in self.updates if update.session_update == kind]

    def calls(self) -> Mapping[str, dict[str, Any]]:
        """Each tool call as it stands after all of its updates."""
        found: dict[str, dict[str, Any]] = {}
        for _, update in self.updates:
            if update.session_update in {"tool_call", "tool_call_update"}:
                told = update.model_dump(
                    mode="json", exclude_unset=True, exclude={"session_update", "field_meta"}
                )
                found.setdefault(update.tool_call_id, {}).update(told)
        return found

    def screen(self) -> list[Any]:
        """What the user sees: texts in their order, calls as they stand at the place where they began."""
        calls = self.calls()
        rows: list[Any] = []
        for _, update in self.updates:
            match update.session_update:
                case "tool_call":
                    rows.append(calls[update.tool_call_id])
                case "tool_call_update":
                    pass
                case kind if kind.endswith("_chunk"):
                    rows.append((kind, update.content.text))
                case kind:
                    rows.append((kind, update.model_dump(mode="json", exclude={"field_meta"})))
        return rows


@dataclass
class Window:
    """An open editor."""

    desktop: Desktop
    agent: ClientSideConnection
    process: Any
    cwd: str

    async def begin(self) -> str:
        """Open a session in the editor's directory."""
        return (await self.agent.new_session(cwd=self.cwd, mcp_servers=[])).session_id

    async def prompt(self, session: str, text: str, **kwargs: Any) -> schema.PromptResponse:
        with anyio.fail_after(LIMIT_S):
            return await self.agent.prompt(
                session_id=session, prompt=[schema.TextContentBlock(type="text", text=text)], **kwargs
            )


@asynccontextmanager
async def opened_editor(
    counter: Counter, *words: str, desktop: Desktop | None = None
) -> AsyncGenerator[Window]:
    """An editor that has started `outlast acp`."""
    shown = desktop or Desktop()
    argv = counter.argv("acp", *words)
    async with (
        acp.spawn_agent_process(
            shown,  # pyright: ignore[reportArgumentType] - files and terminals are not asked of an editor
            argv[0],
            *argv[1:],
            env=counter.environ,
            cwd=counter.shop,
            use_unstable_protocol=True,
        ) as (agent, process)
    ):
        hello = await agent.initialize(
            protocol_version=1, client_info=schema.Implementation(name="desktop", version="1")
        )
        assert hello.protocol_version == 1
        yield Window(shown, agent, process, str(counter.shop.resolve()))
