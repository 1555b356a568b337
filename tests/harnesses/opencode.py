"""OpenCode under the adapter contract, and its tools as the model names them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from outlast.adapter import Agent
from outlast.adapters.opencode import OpenCode
from outlast.adapters.opencode.events import is_ended, messages_of, read, session_of
from outlast.adapters.opencode.versions import installed
from outlast.testing.adapter_contract import Compaction, Subject
from outlast.testing.adapter_contract.stage import prompt
from outlast.testing.models import Step, ToolUse, Usage
from outlast.tool import Tool

MODEL = "claude-sonnet-4-5"
PREFIX = "outlast_"


class OpenCodeSubject(Subject):
    """The real OpenCode, as `outlast install opencode` brings it."""

    name = "opencode"
    dialect = "anthropic"
    recipe = "tests.harnesses.opencode:SUBJECT"
    foreign_words = ("[Tool execution was interrupted]", "Tool execution aborted")
    unset = ("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR")

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        installed()
        return Agent(self.name, OpenCode(model=MODEL), tools=tools)

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent:
        package = directory / "node_modules" / "opencode-linux-x64"
        (package / "bin").mkdir(parents=True)
        (package / "bin" / "opencode").symlink_to(installed().program)
        (package / "package.json").write_text('{"version": "999.0.0"}')
        return Agent(self.name, OpenCode(model=MODEL, program=directory), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=PREFIX + tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="bash", input={"command": command, "description": "A step"})

    def write(self, path: str, text: str) -> ToolUse:
        return ToolUse(name="write", input={"filePath": path, "content": text})

    def sub_agent(self, conversation: str) -> ToolUse:
        told = {"description": "A look", "prompt": prompt(conversation), "subagent_type": "general"}
        return ToolUse(name="task", input=told)

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction:
        # What is summed up stands in the request as the words of a user.
        first = Step(text="I act. [script:summary]", tools=(early,), usage=Usage(input_tokens=990_000))
        return Compaction([first], conversations={"summary": [Step(text=summary)]}, keeps=1, then="default")

    def is_program(self, command: bytes) -> bool:
        return b"opencode\0serve" in command and b"supervise.py" not in command

    def broken_files(self, home: Path, *, cut: bool) -> Sequence[str]:
        return [
            f"{file.name}: {fault}"
            for file in sorted((home / "opencode").glob("*.events"))
            for fault in _faults(file.read_text().splitlines(), cut=cut)
        ]


def _faults(lines: Sequence[str], *, cut: bool) -> Iterator[str]:
    events = read(lines)
    if len(events) < len(lines):
        yield f"line {len(events) + 1} is not the next event"
    info = session_of(events)
    if not info:
        yield "it does not begin with its session"
    if cut or info.get("parentID"):
        return  # a turn that was cut short gets its last results when the next one begins; a sub-agent begins anew
    for message in messages_of(events):
        yield from (
            f"the call {part.get('callID')} has no end" for part in message.tools if not is_ended(part)
        )


SUBJECT = OpenCodeSubject()
