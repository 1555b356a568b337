"""A small agent that speaks the Agent Client Protocol: it stands for those that no registry has, fx for one.

It asks a model in Anthropic's dialect, keeps its session as lines of JSON below HOME, and brings sessions back. It
asks for leave before each tool: its own `run` (a terminal of the client) and `note` (a file written by the client),
and those of MCP servers, which it calls `SERVER__TOOL`. What the model calls in one answer runs side by side.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
import anyio
import httpx
from acp import schema
from acp.schema import ToolCallStatus, ToolKind

TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("run", "note")
]
KINDS: dict[str, ToolKind] = {"run": "execute", "note": "edit"}
MODEL = "claude-sonnet-4-5"
OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class StandIn:
    """The agent's side of the protocol."""

    def __init__(self) -> None:
        self.client: Any = None
        self.messages: list[dict[str, Any]] = []
        self.file = Path()
        self.cwd = ""
        self.tools = list(TOOLS)
        self.servers: dict[str, tuple[Any, str]] = {}
        """By the name of a tool: its server, and what it is called there."""
        self.running: anyio.CancelScope | None = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        able = schema.AgentCapabilities(
            load_session="--forgets" not in sys.argv, mcp_capabilities=schema.McpCapabilities(http=True)
        )
        return schema.InitializeResponse(protocol_version=1, agent_capabilities=able)

    async def new_session(self, cwd: str, mcp_servers: Any = (), **_: Any) -> schema.NewSessionResponse:
        await self._open(cwd, "only", mcp_servers)
        return schema.NewSessionResponse(session_id="only")

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = (), **_: Any
    ) -> schema.LoadSessionResponse:
        await self._open(cwd, session_id, mcp_servers)
        if not self.file.exists():
            raise acp.RequestError.invalid_params({"session": session_id})
        self.messages = [json.loads(line) for line in self.file.read_text().splitlines()]
        for message in self.messages:
            for block in message["content"]:
                if block["type"] == "text":
                    tell = acp.update_agent_message_text if message["role"] == "assistant" else _user
                    await self.client.session_update(session_id, tell(block["text"]))
        last: dict[str, Any] = self.messages[-1] if self.messages else {"role": "user"}
        if last["role"] == "assistant":
            lost = [block["id"] for block in last["content"] if block["type"] == "tool_use"]
            self._keep("user", [_result(one, "No result.") for one in lost])
        return schema.LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        self._keep("user", [{"type": "text", "text": "".join(one.text for one in prompt)}])
        with anyio.CancelScope() as self.running:
            return await self._turn(session_id)
        return schema.PromptResponse(stop_reason="cancelled")

    async def _turn(self, session_id: str) -> schema.PromptResponse:
        while True:
            answer = await self._ask(session_id)
            self._keep("assistant", answer)
            uses = [block for block in answer if block["type"] == "tool_use"]
            if not uses:
                return schema.PromptResponse(stop_reason="end_turn")
            said = await asyncio.gather(*(self._use(session_id, use) for use in uses))
            self._keep("user", [_result(use["id"], one) for use, one in zip(uses, said, strict=True)])

    async def cancel(self, session_id: str, **_: Any) -> None:
        Path(os.environ["HOME"], "cancelled").touch()
        if self.running is not None:
            self.running.cancel()

    async def _use(self, session: str, block: dict[str, Any]) -> str:
        call, given = block["id"], block["input"]
        known = {"tool_call_id": call, "raw_input": given, "title": block["name"]}
        kind = KINDS.get(block["name"], "other")
        start = schema.ToolCallStart(session_update="tool_call", kind=kind, status="pending", **known)
        await self.client.session_update(session, start)
        leave = await self.client.request_permission(
            session, schema.ToolCallUpdate(kind=kind, **known), OPTIONS
        )
        if getattr(leave.outcome, "option_id", "no") != "yes":
            status: ToolCallStatus = "failed"
            said = "It was refused."
        elif block["name"] in KINDS:
            use = self._run if block["name"] == "run" else self._note
            status, said = await use(session, given)
        else:
            status, said = await self._call(block["name"], given)
        shown = [acp.tool_content(acp.text_block(said))]
        await self.client.session_update(session, acp.update_tool_call(call, status=status, content=shown))
        return said

    async def _run(self, session: str, given: dict[str, Any]) -> tuple[ToolCallStatus, str]:
        opened = await self.client.create_terminal(session_id=session, command=given["command"], cwd=self.cwd)
        name = opened.terminal_id
        ended = await self.client.wait_for_terminal_exit(session_id=session, terminal_id=name)
        said = await self.client.terminal_output(session_id=session, terminal_id=name)
        await self.client.release_terminal(session_id=session, terminal_id=name)
        return "completed", f"{said.output}status {ended.exit_code}"

    async def _note(self, session: str, given: dict[str, Any]) -> tuple[ToolCallStatus, str]:
        try:
            await self.client.write_text_file(session_id=session, path=given["path"], content=given["text"])
            read = await self.client.read_text_file(session_id=session, path=given["path"])
        except acp.RequestError as error:
            return "failed", str(error.data)
        return "completed", read.content

    async def _call(self, name: str, given: dict[str, Any]) -> tuple[ToolCallStatus, str]:
        server, tool = self.servers[name]
        found = await _rpc(server, "tools/call", {"name": tool, "arguments": given})
        said = "".join(one.get("text", "[an image]") for one in found["content"])
        return "failed" if found.get("isError") else "completed", said

    async def _ask(self, session: str) -> list[dict[str, Any]]:
        """The blocks of the answer; its text is told as it comes."""
        url = f"{os.environ['STAND_IN_BASE_URL']}/v1/messages"
        body = {
            "model": MODEL,
            "max_tokens": 1000,
            "stream": True,
            "messages": self.messages,
            "tools": self.tools,
        }
        headers = {"x-api-key": os.environ.get("STAND_IN_KEY", "none"), "anthropic-version": "2023-06-01"}
        blocks: list[dict[str, Any]] = []
        over = False
        async with (
            httpx.AsyncClient(timeout=60.0) as http,
            http.stream("POST", url, json=body, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                said = (await answer.aread()).decode()
                raise acp.RequestError.internal_error({"status": answer.status_code, "said": said})
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    event = json.loads(line.removeprefix("data:"))
                    over = over or event["type"] == "message_stop"
                    await self._take(session, blocks, event)
        if not over:
            raise acp.RequestError.internal_error({"reason": "the answer broke off"})
        for block in blocks:
            if "json" in block:
                block["input"] = json.loads(block.pop("json") or "{}")
        return blocks

    async def _take(self, session: str, blocks: list[dict[str, Any]], event: dict[str, Any]) -> None:
        if event["type"] == "error":
            raise acp.RequestError.internal_error(event["error"])
        if event["type"] == "content_block_start":
            block = event["content_block"]
            blocks.append({**block, "json": ""} if block["type"] == "tool_use" else block)
        if event["type"] == "content_block_delta" and "text" in event["delta"]:
            blocks[-1]["text"] += event["delta"]["text"]
            told = acp.update_agent_message_text(event["delta"]["text"])
            await self.client.session_update(session, told)
        elif event["type"] == "content_block_delta":
            blocks[-1]["json"] += event["delta"]["partial_json"]

    async def _open(self, cwd: str, session: str, servers: Any) -> None:
        self.cwd, self.file = cwd, Path(os.environ["HOME"], ".stand-in", f"{session}.jsonl")
        self.file.parent.mkdir(exist_ok=True)
        for server in servers or ():
            for tool in (await _rpc(server, "tools/list", {}))["tools"]:
                name = f"{server.name}__{tool['name']}"
                self.servers[name] = (server, tool["name"])
                self.tools.append(
                    {"name": name, "description": tool["description"], "input_schema": tool["inputSchema"]}
                )

    def _keep(self, role: str, content: list[dict[str, Any]]) -> None:
        if not content:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += content
            lines = [json.dumps(message) + "\n" for message in self.messages]
            self.file.write_text("".join(lines))
            return
        self.messages.append({"role": role, "content": content})
        with self.file.open("a") as file:
            file.write(json.dumps(self.messages[-1]) + "\n")


def _user(text: str) -> schema.UserMessageChunk:
    return acp.update_user_message_text(text)


def _result(call: str, said: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": said}


async def _rpc(server: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask an MCP server that keeps no session."""
    headers = {one.name: one.value for one in server.headers}
    headers["accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with (
        httpx.AsyncClient(timeout=None) as http,
        http.stream("POST", server.url, json=body, headers=headers) as answer,
    ):
        async for line in answer.aiter_lines():
            said: Any = json.loads(line.removeprefix("data:")) if line.startswith(("data:", "{")) else None
            if said and said.get("id") == 1:
                return said.get("result") or _failed(said.get("error"))
    return _failed("the server said nothing")


def _failed(why: object) -> dict[str, Any]:
    return {"isError": True, "tools": [], "content": [{"type": "text", "text": f"It failed: {why}"}]}


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast("acp.Agent", StandIn())))
