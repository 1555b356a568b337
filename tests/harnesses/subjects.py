"""The harnesses that are held to the adapter contract, each in a module of its own here. One line for each."""

from collections.abc import Collection, Sequence

from outlast.testing.adapter_contract import Subject
from tests.harnesses import (
    acp,
    claude_agent_sdk,
    claude_code,
    codex,
    eve,
    langgraph,
    openai_agents,
    opencode,
    pi,
    pydantic_ai,
)

SUBJECTS: Sequence[Subject] = (
    claude_code.SUBJECT,
    claude_agent_sdk.SUBJECT,
    codex.SUBJECT,
    opencode.SUBJECT,
    pi.SUBJECT,
    pydantic_ai.SUBJECT,
    openai_agents.SUBJECT,
    eve.SUBJECT,
    acp.STAND_IN,
    acp.OPENCODE,
    langgraph.SUBJECT,
)

SECOND: Collection[str] = frozenset({acp.OPENCODE.name})
"""Of an adapter that another subject stands for in `make test`; all that they are held to is in `make test-all`."""
