"""Agents of the OpenAI Agents SDK, unchanged, as durable agents: `outlast.Agent("support", OpenAIAgents(agent))`."""

from importlib.util import find_spec

from outlast.errors import HarnessMissing

if find_spec("agents") is None:
    raise HarnessMissing(harness="The OpenAI Agents SDK", install="pip install 'outlast[openai-agents]'")

from outlast.adapters.openai_agents.adapter import (
    OpenAIAgents,
    run_agent,
)

__all__ = ["OpenAIAgents", "run_agent"]
