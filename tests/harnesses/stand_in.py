"""A small agent that speaks the Agent Client Protocol: it stands for those that no registry has, fx for one.

It asks a model in Anthropic's dialect, keeps its session as lines of JSON below HOME, asks for leave before each of its
two tools, `run` (a terminal of the client) and `note` (a file written by the client), and brings sessions back.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import acp
import httpx
from acp import schema
from acp.schema import ToolCallStatus

TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
    for name in ("run", "note")
]
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

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        able = schema.AgentCapabilities(load_session="--forgets" not in sys.argv)
        return schema.InitializeResponse(protocol_version=1, agent_capabilities=able)

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        self._open(cwd, "only")
        return schema.NewSessionResponse(session_id="only")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        self._open(cwd, session_id)
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
        while True:
            answer = await self._ask()
            self._keep("assistant", answer["content"])
            results: list[dict[str, Any]] = []
            for block in answer["content"]:
                if block["type"] == "text":
                    await self.client.session_update(session_id, acp.update_agent_message_text(block["text"]))
                if block["type"] == "tool_use":
                    results.append(_result(block["id"], await self._use(session_id, block)))
            if not results:
                return schema.PromptResponse(stop_reason="end_turn")
            self._keep("user", results)

    async def cancel(self, session_id: str, **_: Any) -> None:
        sys.exit()

    async def _use(self, session: str, block: dict[str, Any]) -> str:
        call, given = block["id"], block["input"]
        known = {"tool_call_id": call, "raw_input": given, "title": block["name"]}
        kind = "execute" if block["name"] == "run" else "edit"
        start = schema.ToolCallStart(session_update="tool_call", kind=kind, status="pending", **known)
        await self.client.session_update(session, start)
        leave = await self.client.request_permission(
            session, schema.ToolCallUpdate(kind=kind, **known), OPTIONS
        )
        if getattr(leave.outcome, "option_id", "no") != "yes":
            status: ToolCallStatus = "failed"
            said = "It was refused."
        else:
            status, said = (
                await self._run(session, given)
                if block["name"] == "run"
                else await self._note(session, given)
            )
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

    async def _ask(self) -> dict[str, Any]:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": self.messages, "tools": TOOLS}
        async with httpx.AsyncClient(timeout=60.0) as http:
            answer = await http.post(
                f"{os.environ['STAND_IN_BASE_URL']}/v1/messages",
                json=body,
                headers={
                    "x-api-key": os.environ.get("STAND_IN_KEY", "none"),
                    "anthropic-version": "2023-06-01",
                },
            )
        if answer.status_code != 200:
            raise acp.RequestError.internal_error({"status": answer.status_code})
        return answer.json()

    def _open(self, cwd: str, session: str) -> None:
        self.cwd, self.file = cwd, Path(os.environ["HOME"], ".stand-in", f"{session}.jsonl")
        self.file.parent.mkdir(exist_ok=True)

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


if __name__ == "__main__":
    asyncio.run(acp.run_agent(cast("acp.Agent", StandIn())))
