"""The application's tools, offered to a harness over MCP (streamable HTTP of the Model Context Protocol).

A call runs in a task of the attempt, not of the connection: a client that goes away cancels nothing, and asking
again under the same id gives the same call's outcome.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from outlast.adapter import ToolResult
from outlast.errors import AttemptLost, TurnStopped
from outlast.gateway.doors import OpenDoor
from outlast.gateway.limits import Limits
from outlast.gateway.wire import Http
from outlast.logs import logger
from outlast.model import ImagePart
from outlast.parts import find_parts
from outlast.tool import result_text

NAME: Final = "outlast"
UNNAMED: Final = "This call did not run: nothing says which call of the model's it is."
_CALL_IDS: Final = ("claudecode/toolUseId", "callId")

log = logger("outlast.gateway")

Context = ServerRequestContext[Any, Any]


class _Run:
    """A call under way."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.result: ToolResult | None = None
        self.failure = ""


class ToolServer:
    """The MCP server of one attempt."""

    def __init__(self, door: OpenDoor, limits: Limits) -> None:
        self._door = door
        self._limits = limits
        self._runs: dict[str, _Run] = {}
        server = Server(NAME, on_list_tools=self._list, on_call_tool=self._call)
        # Stateless: a harness that is started again, or connects anew, has no session to lose.
        self._http = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=limits.request_bytes
        )

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Be ready to answer until cancelled. A task of its own, since its errors would come in a group."""
        async with self._http.run():
            task_status.started()
            await anyio.sleep_forever()

    async def answer(self, http: Http) -> None:
        """Answer one HTTP request."""
        if http.method != "POST":
            # Nothing is said unasked: a stream for that would only be one more connection that hangs.
            await http.whole(405, b"", (("allow", "POST"),))
            return
        await self._http.handle_request(*http.asgi())

    async def _list(self, _context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        # What stands in for a tool of the harness's is offered as that, by whoever knows the harness.
        tools = [tool for tool in self._door.attempt.tools.values() if not tool.stands_in]
        return ListToolsResult(
            tools=[
                Tool(name=tool.name, description=tool.description, input_schema=dict(tool.schema))
                for tool in tools
            ]
        )

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        harness_id = _call_id(context) or self._door.dialogue.call_of(params.name, arguments)
        if harness_id == "":
            return CallToolResult(content=[TextContent(text=UNNAMED)], is_error=True)
        run = self._begin(params.name, arguments, harness_id or "")
        beats = 0
        while not run.ended.is_set():
            with anyio.move_on_after(self._limits.progress_s):
                await run.ended.wait()
                break
            beats += 1
            await context.session.report_progress(beats)
        if run.result is None:
            raise MCPError(INTERNAL_ERROR, run.failure)
        return CallToolResult(content=_content(run.result.value), is_error=run.result.status != "ok")

    def _begin(self, name: str, arguments: Mapping[str, Any], harness_id: str) -> _Run:
        """Begin a call, or find the one that runs under the same id."""
        found = self._runs.get(harness_id)
        if found is not None:
            return found
        if self._door.over:
            raise MCPError(INTERNAL_ERROR, f"Nothing may run any more: {self._door.over}.")
        run = _Run()
        if harness_id:
            self._runs[harness_id] = run
        self._door.tasks.start_soon(self._run, run, name, arguments, harness_id)
        return run

    async def _run(self, run: _Run, name: str, arguments: Mapping[str, Any], harness_id: str) -> None:
        try:
            run.result = await self._door.attempt.calls.run_tool(name, arguments, harness_id=harness_id)
        except (AttemptLost, TurnStopped) as over:
            self._door.close(str(over))
            run.failure = f"The turn is over: {over}."
        except Exception as error:
            log.exception("a tool of %s could not be run", self._door.attempt.session)
            run.failure = (
                f"The call could not be carried through ({type(error).__name__}). It may have taken effect."
            )
        finally:
            self._runs.pop(harness_id, None)
        run.ended.set()


def _content(value: object) -> list[ContentBlock]:
    parts = find_parts(value)
    if parts is None:
        return [TextContent(text=result_text(value))]
    return [
        ImageContent(data=b64encode(part.data).decode(), mime_type=part.media_type)
        if isinstance(part, ImagePart)
        else TextContent(text=part.text)
        for part in parts
    ]


def _call_id(context: Context) -> str:
    meta: Mapping[str, Any] = context.meta or {}
    return next((str(meta[key]) for key in _CALL_IDS if meta.get(key)), "")
