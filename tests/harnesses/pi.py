"""Pi under the adapter contract, and its tools as the model names them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.pi import Pi
from outlast.adapters.pi.session import CONTINUE
from outlast.adapters.pi.versions import installed
from outlast.testing.adapter_contract import Compaction, Subject
from outlast.testing.models import Step, ToolUse, Usage
from outlast.tool import Tool

MODEL = "claude-sonnet-4-5"
SUB_AGENTS = (
    "a_sub_agent_is_carried_to_its_report",
    "a_sub_agent_killed_when_its_tool_has_acted_repeats_nothing",
    "a_sub_agent_killed_while_its_model_streams_is_carried_on",
    "a_sub_agent_killed_before_its_report_is_delivered_is_carried_on",
    "two_sub_agents_that_ask_for_the_same_are_kept_apart",
    "two_sub_agents_that_ask_for_the_same_are_carried_on",
)


class PiSubject(Subject):
    """The real Pi, as `outlast install pi` brings it."""

    name = "pi"
    dialect = "anthropic"
    recipe = "tests.harnesses.pi:SUBJECT"
    lacks = dict.fromkeys(SUB_AGENTS, "Pi has no sub-agents of its own.")
    foreign_words = ("outlast.continue", "No result provided")

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, Pi(model=MODEL), tools=tools)

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent:
        package = installed().package
        copy = directory / "node_modules" / "@earendil-works" / package.name
        copy.mkdir(parents=True)
        for entry in package.iterdir():
            if entry.name != "package.json":
                (copy / entry.name).symlink_to(entry)
        told = json.loads((package / "package.json").read_bytes())
        (copy / "package.json").write_text(json.dumps({**told, "version": "999.0.0"}))
        return Agent(self.name, Pi(model=MODEL, program=directory), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="bash", input={"command": command})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write", input={"path": path, "content": text})

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction:
        # What is summed up stands in the request as the words of a user.
        first = Step(text="I look first. [script:summary]", tools=(self.shell("ls"),))
        then = Step(text="I act.", tools=(early,), usage=Usage(input_tokens=195_000))
        settings = {"options": {"compaction": {"keepRecentTokens": 1}}}
        return Compaction([first, then], settings, {"summary": [Step(text=summary)]}, asks=3, keeps=1)

    def is_program(self, command: bytes) -> bool:
        return b"\0rpc\0" in command and b"supervise.py" not in command

    def broken_files(self, home: Path, *, cut: bool) -> Sequence[str]:
        return [
            f"{file.name}: {fault}"
            for file in sorted(home.rglob("sessions/*.jsonl"))
            for fault in _faults(file.read_text().splitlines(), whole=not cut)
        ]


def _faults(lines: Sequence[str], *, whole: bool) -> Iterator[str]:
    entries: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
    if not entries or entries[0].get("type") != "session":
        yield "it has no header"
    seen: set[str] = set()
    before: str | None = None
    open_calls: dict[str, int] = {}
    for number, entry in enumerate(entries[1:], 2):
        if entry["id"] in seen:
            yield f"line {number} has the id of an earlier one"
        if entry["parentId"] != before:
            yield f"line {number} does not hang below the line before it"
        seen.add(entry["id"])
        # What makes Pi go on stands beside the conversation.
        before = before if entry.get("customType") == CONTINUE else entry["id"]
        yield from _unpaired(entry.get("message") or {}, number, open_calls)
    if whole and open_calls:
        yield f"calls have no result: {', '.join(open_calls)}"


def _unpaired(message: Mapping[str, Any], number: int, open_calls: dict[str, int]) -> Iterator[str]:
    match message.get("role"):
        case "assistant":
            if open_calls:
                yield f"line {number} answers while calls have no result: {', '.join(open_calls)}"
            blocks = message["content"] if message.get("stopReason") != "error" else ()
            open_calls.update({block["id"]: number for block in blocks if block["type"] == "toolCall"})
        case "toolResult":
            if open_calls.pop(message["toolCallId"], None) is None:
                yield f"line {number} is the result of no call"
        case _:
            pass


SUBJECT = PiSubject()
