"""Codex under the adapter contract, and its tools as the model names them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.adapter import Agent
from outlast.adapters.codex import Codex
from outlast.adapters.codex.rollout import is_call, is_output, item_of
from outlast.adapters.codex.versions import installed
from outlast.testing.adapter_contract import Compaction, Subject
from outlast.testing.models import Step, ToolUse, Usage
from outlast.tool import Tool

SUB_AGENTS = (
    "a_sub_agent_is_carried_to_its_report",
    "a_sub_agent_killed_when_its_tool_has_acted_repeats_nothing",
    "a_sub_agent_killed_while_its_model_streams_is_carried_on",
    "a_sub_agent_killed_before_its_report_is_delivered_is_carried_on",
    "two_sub_agents_that_ask_for_the_same_are_kept_apart",
    "two_sub_agents_that_ask_for_the_same_are_carried_on",
)
MODEL = "gpt-5.5"
LIMIT = 20_000


class CodexSubject(Subject):
    """The real Codex, as npm's `@openai/codex` brings it."""

    name = "codex"
    dialect = "openai-responses"
    recipe = "tests.harnesses.codex:SUBJECT"
    lacks = dict.fromkeys(SUB_AGENTS, "Sub-agents of Codex go on beside the turn; they are switched off.")
    foreign_words = ("<turn_aborted>", "aborted by user")
    unset = ("CODEX_HOME",)

    def agent(self, tools: Sequence[Tool], *, upstream: str) -> Agent:
        return Agent(self.name, Codex(model=MODEL), tools=tools)

    def untested(self, tools: Sequence[Tool], directory: Path) -> Agent:
        program = directory / "bin" / "codex"
        program.parent.mkdir()
        program.symlink_to(installed().program)
        (directory / "codex-package.json").write_text(json.dumps({"version": "999.0.0"}))
        return Agent(self.name, Codex(model=MODEL, program=program), tools=tools)

    def application(self, tool: str, **arguments: object) -> ToolUse:
        return ToolUse(name=tool, input=arguments)

    def shell(self, command: str) -> ToolUse:
        return ToolUse(name="exec_command", input={"cmd": command})

    def write(self, path: str, text: str) -> ToolUse:
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
        return ToolUse(name="exec_command", input={"cmd": f"apply_patch <<'EOF'\n{patch}EOF"})

    def compaction(self, early: ToolUse, summary: str, place: Path) -> Compaction:
        first = Step(text="I act.", tools=(early,), usage=Usage(input_tokens=LIMIT + 1))
        settings = {"config": {"model_auto_compact_token_limit": LIMIT}}
        return Compaction([first, Step(text=summary)], settings)

    def is_program(self, command: bytes) -> bool:
        return b"app-server" in command and b"supervise.py" not in command

    def broken_files(self, home: Path, *, cut: bool) -> Sequence[str]:
        return [
            f"{file.name}: {fault}"
            for file in sorted(home.rglob("rollout-*.jsonl"))
            for fault in _faults(file.read_text().splitlines(), whole=not cut)
        ]


def _faults(lines: Sequence[str], *, whole: bool) -> Iterator[str]:
    calls: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for number, line in enumerate(lines):
        record: dict[str, Any] = msgspec.json.decode(line)
        if record.get("ordinal") != number:
            yield f"line {number} has the ordinal {record.get('ordinal')}"
        item: Mapping[str, Any] = item_of(record)
        if is_call(item):
            calls[item["call_id"]] = calls.get(item["call_id"], 0) + 1
        if is_output(item):
            outputs[item["call_id"]] = outputs.get(item["call_id"], 0) + 1
            if item["call_id"] not in calls:
                yield f"line {number} answers {item['call_id']}, which nobody asked for"
    yield from (f"{call} stands there {count} times" for call, count in calls.items() if count > 1)
    yield from (f"{call} is answered {count} times" for call, count in outputs.items() if count > 1)
    if whole:
        yield from (f"{call} has no output" for call in calls if call not in outputs)


SUBJECT = CodexSubject()
