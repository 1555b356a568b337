"""Claude Code under the adapter contract, and its tools as the model names them."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.claude_code import ClaudeCode
from outlast.adapters.claude_code.versions import installed
from outlast.testing.adapter_contract import Compaction, Stage, Subject, staged
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.adapter_contract.wire import unpaired
from outlast.testing.models import Step, ToolUse, Usage
from outlast.tool import Tool

MODEL = "claude-sonnet-4-5"
PREFIX = "mcp__outlast__"
WINDOW = {"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}}


class ClaudeCodeSubject(Subject):
    """The real Claude Code, as `claude-agent-sdk` brings it."""

    name = "claude-code"
    dialect = "anthropic"
    recipe = "tests.harnesses.claude_code:SUBJECT"
    foreign_words = ("[[outlast:", "No response requested.", "Continue from where you left off.")
    unset = ("CLAUDE_CONFIG_DIR",)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, ClaudeCode(model=MODEL), tools=tools)

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent:
        program = directory / "claude"
        program.symlink_to(installed().program)
        (directory / "claude.version").write_text("999.0.0")
        return Agent(self.name, ClaudeCode(model=MODEL, program=program), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=PREFIX + tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="Bash", input={"command": command, "description": "A step"})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="Write", input={"file_path": path, "content": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        told = {"description": "A look", "prompt": prompt(conversation), "subagent_type": "general-purpose"}
        return ToolUse(name="Agent", input=told)

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction:
        (place / ".claude").mkdir(exist_ok=True)
        (place / ".claude" / "settings.json").write_text(json.dumps(WINDOW))
        said = f"<analysis>Much.</analysis><summary>{summary}</summary>"
        first = Step(text="I act.", tools=(early,), usage=Usage(input_tokens=180_000))
        return Compaction([first, Step(text=said)])

    def is_program(self, command: bytes) -> bool:
        return b"--session-mirror" in command and b"supervise.py" not in command

    def broken_files(self, home: Path, *, cut: bool) -> Sequence[str]:
        return [
            f"{file.name}: {fault}"
            for file in sorted(home.rglob("*.jsonl"))
            # A turn that was cut short gets its last results when the next one begins; a sub-agent's may lack some
            # where it was cut off and began anew.
            for fault in _faults(
                file.read_text().splitlines(), whole=file.parent.name != "subagents" and not cut
            )
        ]


def _faults(lines: Sequence[str], *, whole: bool) -> Iterator[str]:
    seen: set[str] = set()
    messages: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines, 1):
        record: dict[str, Any] = msgspec.json.decode(line)
        parent, uuid = record.get("parentUuid"), record.get("uuid")
        if parent is not None and parent not in seen:
            yield f"line {number} hangs below {parent}, which is not there"
        if uuid is not None:
            if uuid in seen:
                yield f"line {number} has the UUID of an earlier one"
            seen.add(uuid)
        messages.append(record.get("message") or {})
    if whole:
        yield from unpaired(messages)


SUBJECT = ClaudeCodeSubject()
use = SUBJECT.application
bash = SUBJECT.shell
write = SUBJECT.write
agent_use = SUBJECT.sub_agent


@asynccontextmanager
async def stage_of(
    directory: Path, script: Mapping[str, Sequence[Step]], *, retries: int | None = None
) -> AsyncGenerator[Stage]:
    """A stage for Claude Code."""
    async with staged(SUBJECT, directory, script, retries=retries) as stage:
        yield stage
