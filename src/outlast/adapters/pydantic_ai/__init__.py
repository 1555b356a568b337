"""pydantic-ai agents, unchanged, as durable agents: `outlast.Agent("support", PydanticAI(agent))`."""

from importlib.util import find_spec

from outlast.errors import HarnessMissing

if find_spec("pydantic_ai") is None:
    raise HarnessMissing(harness="pydantic-ai", install="pip install 'outlast[pydantic-ai]'")

from outlast.adapters.pydantic_ai.adapter import (
    PydanticAI,
    policies_of,
    run_agent,
)

__all__ = ["PydanticAI", "policies_of", "run_agent"]
