"""Models that number their tool calls anew in each answer: the calls are kept apart, whatever framework asks."""

# LangGraph ships no marker that it is typed, and leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Model, ModelResponse, Usage, function_tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import messages as theirs
from pydantic_ai.models.function import AgentInfo, FunctionModel

from outlast.adapter import Agent
from outlast.adapters.langgraph import LangGraph, durable_model, durable_tool
from outlast.adapters.openai_agents import OpenAIAgents
from outlast.adapters.pydantic_ai import PydanticAI
from outlast.records import CallIntent
from outlast.world import World
from tests.unit.engine_desk import Desk, opened, records

Done = Counter[int]
ANSWERS = 2


def _cents(answer: int) -> list[int]:
    """What the two calls of an answer pay."""
    return [2 * answer, 2 * answer + 1]


def pydantic_ai(done: Done) -> Agent:
    def say(messages: list[theirs.ModelMessage], _: AgentInfo) -> theirs.ModelResponse:
        said = sum(isinstance(message, theirs.ModelResponse) for message in messages)
        if said == ANSWERS:
            return theirs.ModelResponse([theirs.TextPart("Done.")])
        calls = [
            theirs.ToolCallPart("pay", {"cents": cents}, tool_call_id="call_0") for cents in _cents(said)
        ]
        return theirs.ModelResponse(calls)

    agent: PydanticAgent[Any, Any] = PydanticAgent(FunctionModel(say))

    @agent.tool_plain
    async def pay(cents: int) -> str:
        """Pay."""
        done[cents] += 1
        return "paid"

    return Agent("tester", PydanticAI(agent, stream=False))


class Numbering(Model):
    """A model of the Agents SDK's."""

    async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
        results = sum(item.get("type") == "function_call_output" for item in asked[1])
        if results == 2 * ANSWERS:
            text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
            end = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse([end], Usage(), None)
        calls = [
            ResponseFunctionToolCall(
                call_id="call_0", name="pay", arguments=f'{{"cents": {cents}}}', type="function_call"
            )
            for cents in _cents(results // 2)
        ]
        return ModelResponse([*calls], Usage(), None)

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield


def openai_agents(done: Done) -> Agent:
    @function_tool
    async def pay(cents: int) -> str:
        """Pay."""
        done[cents] += 1
        return "paid"

    agent = OpenAIAgent[Any]("clerk", model=Numbering(), tools=[pay])
    return Agent("tester", OpenAIAgents(agent, stream=False))


class Chat(BaseChatModel):
    """A model of LangChain's."""

    @property
    def _llm_type(self) -> str:
        return "numbering"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        said = sum(message.type == "ai" for message in messages)
        if said == ANSWERS:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Done."))])
        calls = [{"id": "call_0", "name": "pay", "args": {"cents": cents}} for cents in _cents(said)]
        content: list[Any] = [{"type": "tool_use", "id": call["id"], "name": "pay"} for call in calls]
        message = AIMessage(content, tool_calls=calls, additional_kwargs={"tool_calls": calls})
        return ChatResult(generations=[ChatGeneration(message=message)])


def langgraph(done: Done) -> Agent:
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        done[cents] += 1
        return "paid"

    tools, model = [durable_tool(pay)], durable_model(Chat())

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder: Any = StateGraph(MessagesState).add_node("answer", answer).add_node("tools", ToolNode(tools))
    builder.add_edge(START, "answer").add_edge("tools", "answer")
    builder.add_conditional_edges("answer", tools_condition)
    return Agent("tester", LangGraph(builder.compile(), tools=tools))


@pytest.mark.parametrize("make", [pydantic_ai, openai_agents, langgraph])
async def test_calls_that_a_model_numbers_anew_in_each_answer_are_kept_apart(make: Any, world: World) -> None:
    done = Done()
    session = await opened(world, make(done))
    await Desk(world).work(make(done))
    outcome = await session.result(1)
    assert outcome.value == "Done.", outcome.error
    assert done == dict.fromkeys(range(2 * ANSWERS), 1)
    calls = [one for one in await records(world) if isinstance(one, CallIntent) and one.kind == "tool"]
    assert calls[0].harness_id == "call_0"
    assert len({one.harness_id for one in calls}) == 2 * ANSWERS
