"""What an agent may ask of us (`acp.interfaces.Client`): leave to run a tool, files, terminals."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
from acp import schema
from acp.exceptions import RequestError

from outlast.adapter import Attempt, Let, ToolResult
from outlast.adapters.acp.dialogue import names_ours
from outlast.adapters.acp.steps import Steps, as_arguments
from outlast.adapters.acp.talk import SENTINEL
from outlast.adapters.acp.terminals import Terminals
from outlast.adapters.program import sees_files
from outlast.errors import OutlastError

Answer = TypeVar("Answer")
NOT_GRANTED: Final = "Nothing may be changed now: no tool call that the log lets run is under way."
OUTSIDE: Final = "{path} lies outside the session's directory."
_DONE: Final = ("completed", "failed")


class Client:
    """Answers one agent in one attempt.

    Nothing that ends the attempt is let through the library, which would only note it: `failure` holds it.

    Args:
        record: brings the mirror up to what the agent has written; awaited before a tool may begin.
        asks: the agent asks before each tool that is not `safe`; if not, one has begun when the agent says so.
        environ: what commands in terminals find, before what the agent adds.
    """

    def __init__(
        self,
        attempt: Attempt,
        steps: Steps,
        terminals: Terminals,
        record: Callable[[], Awaitable[None]],
        *,
        asks: bool,
        environ: Mapping[str, str],
    ) -> None:
        self._environ = environ
        self._attempt = attempt
        self._steps = steps
        self._terminals = terminals
        self._record = record
        self._asks = asks
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.Event()
        self.loading = False
        """What comes is the conversation so far, told again."""
        self.told: list[tuple[str, str]] = []
        """The conversation so far: who spoke, and what."""
        self._names: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._updates: asyncio.Queue[Any] = asyncio.Queue()

    # -- what is told

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Take what the agent tells, in its order."""
        if self.loading:
            self._remember(update)
        else:
            self.heard.set()
            self._updates.put_nowait(update)

    async def take_updates(self) -> None:
        """Take to the log what the agent tells, until cancelled."""
        while True:
            update = await self._updates.get()
            try:
                await self._take(update)
            finally:
                self._updates.task_done()

    async def all_taken(self) -> None:
        """Return when everything told so far is taken to the log."""
        await self._updates.join()

    def _remember(self, update: Any) -> None:
        match update:
            case schema.UserMessageChunk():
                who = "user"
            case schema.AgentMessageChunk():
                who = "agent"
            case _:
                who = ""
        text = _text_of(update)
        if who == "user" and text.strip() == SENTINEL:
            return
        if self.told and self.told[-1][0] == who:
            text = self.told.pop()[1] + text
        self.told.append((who, text))

    async def _take(self, update: Any) -> None:
        match update:
            case schema.AgentMessageChunk():
                await self._steps.said("text", _text_of(update))
            case schema.AgentThoughtChunk():
                await self._steps.said("thinking", _text_of(update))
            case schema.ToolCallStart() | schema.ToolCallProgress():
                await self._take_call(update)
            case _:
                pass

    async def _take_call(self, update: Any) -> None:
        call, name, arguments = self._known(update)
        if update.status in _DONE or (update.status == "in_progress" and not self._asks):
            await self._steps.seen(call, name, arguments)
        if update.status in _DONE:
            status = "ok" if update.status == "completed" else "error"
            await self._steps.ended(call, ToolResult(status, _said(update)))

    def _known(self, update: Any) -> tuple[str, str, Mapping[str, Any]]:
        """The id of a tool call, its name and arguments, of which each update tells only what is new."""
        name, arguments = self._names.get(update.tool_call_id, ("", {}))
        name = (self._ours(update) or str(update.kind or "")) if name in {"", "other"} else name
        told = as_arguments(update.raw_input) or ({"title": update.title} if update.title else {})
        known = self._names[update.tool_call_id] = (
            name or "other",
            arguments if arguments and not update.raw_input else told,
        )
        return update.tool_call_id, *known

    def _ours(self, update: Any) -> str:
        """The name of one of the application's tools, which only the title tells; empty if it is none."""
        title = str(update.title or "")
        return title if any(names_ours(title, tool, bare=False) for tool in self._attempt.tools) else ""

    # -- what is asked

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        """Leave for a tool call that the log lets run, once, and for no other."""
        return await self._guarded(self._permit(tool_call, options))

    async def _permit(self, tool_call: Any, options: list[Any]) -> schema.RequestPermissionResponse:
        call, name, arguments = self._known(tool_call)
        await self.all_taken()
        await self._record()
        verdict = await self._steps.begin(call, name, arguments)
        wanted = ("allow_once",) if isinstance(verdict, Let) else ("reject_once", "reject_always")
        chosen = next((one.option_id for kind in wanted for one in options if one.kind == kind), None)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        """A file of the session's directory."""
        self._expect_files()
        text = await self._guarded(_read(self._inside(path)))
        if line is not None or limit is not None:
            first = max((line or 1) - 1, 0)
            lines = text.splitlines(keepends=True)
            text = "".join(lines[first : None if limit is None else first + limit])
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> schema.WriteTextFileResponse:
        """A file of the session's directory, while a call that the log lets run is under way."""
        self._expect_files()
        target = self._inside(path)
        await self._guarded(self._expect_a_call())
        await anyio.Path(target.parent).mkdir(parents=True, exist_ok=True)
        await anyio.Path(target).write_text(content, encoding="utf-8")
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[Any] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> schema.CreateTerminalResponse:
        """A supervised command, while a call that the log lets run is under way."""
        place = self._attempt.places.cwd if cwd is None else self._inside(cwd)
        await self._guarded(self._expect_a_call())
        environ = {**self._environ, **{one.name: one.value for one in env or ()}}
        # As agents use it: a line for a shell where it comes without arguments.
        words = [command, *args] if args else ["/bin/sh", "-c", command]
        name = self._terminals.start(words, env=environ, cwd=place, limit=output_byte_limit)
        return schema.CreateTerminalResponse(terminal_id=name)

    async def terminal_output(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.TerminalOutputResponse:
        """What a command has said so far."""
        terminal = self._terminals.get(terminal_id)
        status = None
        if terminal.ended.is_set():
            status = schema.TerminalExitStatus(exit_code=_exit_code(terminal.status))
        return schema.TerminalOutputResponse(
            output=terminal.text, truncated=terminal.truncated, exit_status=status
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for a command's end."""
        terminal = self._terminals.get(terminal_id)
        await terminal.ended.wait()
        return schema.WaitForTerminalExitResponse(exit_code=_exit_code(terminal.status))

    async def kill_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.KillTerminalResponse:
        """End a command."""
        self._terminals.kill(terminal_id)
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.ReleaseTerminalResponse:
        """End a command, and forget it."""
        self._terminals.release(terminal_id)
        return schema.ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        """Nobody is here to ask."""
        raise RequestError.method_not_found("elicitation/create")

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None:
        """See `create_elicitation`."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Extensions are not known."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Extensions are not known."""

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""

    async def _expect_a_call(self) -> None:
        await self.all_taken()
        turn, fence = self._attempt.turn, self._attempt.fence
        if not any(state.intent.kind == "tool" and state.started == fence for state in turn.open_calls()):
            raise RequestError.invalid_request({"reason": NOT_GRANTED})

    def _expect_files(self) -> None:
        """The path of a file in a sandbox means another one, or somebody else's, where we are."""
        if not sees_files(self._attempt):
            raise RequestError.method_not_found("fs")

    def _inside(self, path: str) -> Path:
        cwd = self._attempt.places.cwd
        if sees_files(self._attempt):
            cwd = cwd.resolve()
            target = (cwd / path).resolve()
        else:  # what is at that path here says nothing
            target = Path(os.path.normpath(cwd / path))
        if not target.is_relative_to(cwd):
            raise RequestError.invalid_params({"reason": OUTSIDE.format(path=path)})
        return target

    async def _guarded(self, asked: Awaitable[Answer]) -> Answer:
        """Let nothing that ends the attempt go to the library, which would only log it."""
        try:
            return await asked
        except (RequestError, asyncio.CancelledError):
            raise
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError.internal_error({"reason": str(error)}) from error
        except BaseException as error:  # noqa: BLE001 - it is raised again, by whoever awaits `failure`
            if not self.failure.done():
                self.failure.set_exception(error)
            said = str(error) if isinstance(error, OutlastError) else type(error).__name__
            raise RequestError.internal_error({"reason": said}) from None


async def _read(path: Path) -> str:
    return await anyio.Path(path).read_text(encoding="utf-8")


def _exit_code(status: int | None) -> int | None:
    return status if status is not None and status >= 0 else None


def _text_of(update: Any) -> str:
    content = getattr(update, "content", None)
    return content.text if isinstance(content, schema.TextContentBlock) else ""


def _said(update: Any) -> object:
    """How a tool call ended, as the agent shows it."""
    shown = [
        one.content.text
        for one in update.content or ()
        if isinstance(one, schema.ContentToolCallContent) and isinstance(one.content, schema.TextContentBlock)
    ]
    return "\n".join(shown) if shown else as_arguments(update.raw_output)
