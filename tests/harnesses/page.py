"""The page that says what holds of each harness, with the table that is made of the contract."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from outlast.adapter import Adapter
from outlast.adapters.acp import Acp
from outlast.offering import Offers
from outlast.testing.adapter_contract import CASES, Subject
from outlast.testing.adapter_contract.table import Column, table
from tests.harnesses.subjects import SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "harnesses" / "index.md"
BEGIN, END = "<!-- table: python -m tests.harnesses -->\n\n", "\n<!-- /table -->\n"
NAMES = {
    "claude-code": "Claude Code",
    "claude-agent-sdk": "Claude Agent SDK",
    "codex": "Codex",
    "opencode": "OpenCode",
    "pi": "Pi",
    "eve": "[eve](eve.md)",
    "acp": "[Any ACP agent](acp.md)",
    "opencode-acp": "[`opencode acp`](acp.md#opencode)",
    "pydantic-ai": "[pydantic-ai](../loops/pydantic-ai.md)",
    "openai-agents": "[OpenAI Agents SDK](../loops/openai-agents.md)",
    "langgraph": "[LangGraph](../loops/langgraph.md)",
}
BY_COMMAND: Mapping[str, Adapter] = {"acp": Acp(["an-agent"]), "opencode-acp": Acp(["opencode", "acp"])}
"""Adapters that make nothing of themselves: they are told what to start."""


def page() -> str:
    """The page, with the table as the code has it now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    columns = [_column(subject) for subject in SUBJECTS]
    return before + BEGIN + table(columns, [case.name for case in CASES]) + END + after


def _column(subject: Subject) -> Column:
    adapter = _adapter(subject)
    name = NAMES.get(subject.name, subject.name)
    return Column(subject, name, adapter.abilities, isinstance(adapter, Offers))


def _adapter(subject: Subject) -> Adapter:
    """That of the name; of a framework, where no name is enough, that of the agent that is tried."""
    if subject.name in BY_COMMAND:
        return BY_COMMAND[subject.name]
    for found in entry_points(group="outlast.adapters", name=subject.name):
        return cast("Adapter", found.load()())
    return subject.agent((), upstream="").adapter
