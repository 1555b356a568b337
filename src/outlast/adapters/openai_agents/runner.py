"""Carries runs on durably: a turn's own, and those that begin within a durable tool or a guardrail.

The SDK asks one runner for each run that `Runner` begins, also for an agent that is a tool (`Agent.as_tool`). From the
first durable run of the process on ours stands before it: what begins within a durable tool or a guardrail goes on in a
lane of that, everything else is passed on.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from agents import Agent, Model, RunConfig, RunResult, RunResultStreaming, RunState
from agents.items import ToolApprovalItem, TResponseInputItem
from agents.run import AgentRunner, RunOptions, get_default_agent_runner, set_default_agent_runner

from outlast.adapters.openai_agents.models import DurableModel, DurableProvider
from outlast.adapters.openai_agents.within import here
from outlast.adapters.openai_agents.wrapping import Run
from outlast.adapters.python import IO

ALLOW = "allow"
DENY = "deny"

Asked = str | list[TResponseInputItem]


async def carried(run: Run, agent: Agent[Any], asked: Asked, more: Mapping[str, Any]) -> RunResult:
    """Carry a run to its end; calls that need approval wait for a person.

    Args:
        more: further arguments of `Runner.run`.
    """
    runner, mine = _runner().beneath, run.agent(agent)
    options: Any = {**more, "run_config": configured(run, more.get("run_config"))}
    result = await runner.run(mine, asked, **options)
    while result.interruptions:
        state = result.to_state()
        words = await run.io.gather(*(_question(one) for one in result.interruptions))
        for one, word in zip(result.interruptions, words, strict=True):
            _decide(state, one, word)
        result = await runner.run(mine, state, **options)
    return result


def configured(run: Run, config: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    """The configuration with its models wrapped for this run, and for no other."""
    if not isinstance(config, RunConfig):
        config = RunConfig(**config) if config else RunConfig(tracing_disabled=True)
    model, provider = config.model, config.model_provider
    if isinstance(model, DurableModel):
        model = model.wrapped
    if isinstance(provider, DurableProvider):
        provider = provider.wrapped
    return replace(
        config,
        model=DurableModel(model, run) if isinstance(model, Model) else model,
        model_provider=DurableProvider(provider, run),
    )


class DurableRunner(AgentRunner):
    """Stands before the runner of the process."""

    def __init__(self, beneath: AgentRunner) -> None:
        self.beneath = beneath

    async def run(
        self,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],  # noqa: A002 - as the SDK has it
        **kwargs: Unpack[RunOptions[Any]],
    ) -> RunResult:
        """A whole run."""
        within = here()
        if within is None or isinstance(input, RunState):
            return await self.beneath.run(starting_agent, input, **kwargs)
        key, asked = within.key(starting_agent.name), input

        async def carry(lane: IO) -> RunResult:
            return await carried(Run(lane, within.stream), starting_agent, asked, dict(kwargs))

        return await within.io.beside(key, carry)

    def run_streamed(
        self,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any],  # noqa: A002 - as the SDK has it
        **kwargs: Unpack[RunOptions[Any]],
    ) -> RunResultStreaming:
        """A run as a stream, in the very lane of what begins it: one at a time."""
        within = here()
        if within is None or isinstance(input, RunState):
            return self.beneath.run_streamed(starting_agent, input, **kwargs)
        run = Run(within.io, within.stream)
        kwargs["run_config"] = configured(run, kwargs.get("run_config"))
        return self.beneath.run_streamed(run.agent(starting_agent), input, **kwargs)


def _runner() -> DurableRunner:
    runner = get_default_agent_runner()
    if not isinstance(runner, DurableRunner):
        runner = DurableRunner(runner)
        set_default_agent_runner(runner)
    return runner


def _question(item: ToolApprovalItem) -> Callable[[IO], Any]:
    async def ask(lane: IO) -> object:
        asked = f"May {item.name} run with {item.arguments}?"
        return await lane.ask(asked, choices=[ALLOW, DENY])

    return ask


def _decide(state: RunState[Any], item: ToolApprovalItem, word: object) -> None:
    if word in {ALLOW, True}:
        state.approve(item)
    else:
        state.reject(item, rejection_message=None if word in {DENY, False} else str(word))
