"""Tools for a graph's model to wait with: for a signal, for some time, for a person."""

# LangGraph ships no marker that it is typed, and LangChain leaves parameters of its own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from outlast.adapters.foreign import this_call
from outlast.adapters.langgraph.tools import durable_tool
from outlast.errors import NothingCame, ToolError
from outlast.offers import ASK, OFFERED, WAIT, read_offer
from outlast.tool import result_text

_NOTHING: Final = (
    "There is nothing to wait for. Give a signal, some seconds, or a time like 2027-01-31T08:00:00+00:00."
)


def waiting_tools() -> Sequence[BaseTool]:
    """`outlast_wait` and `outlast_ask`, as agent programs are offered them: while the turn waits, no worker is held."""
    return [_offered(WAIT, _wait), _offered(ASK, _ask)]


def _offered(name: str, wait: Callable[..., Awaitable[str]]) -> BaseTool:
    known = OFFERED[name]
    made = StructuredTool(
        name=name,
        description=known.description,
        args_schema=dict(known.schema),
        coroutine=wait,
        handle_tool_error=True,
    )
    return durable_tool(made, "safe")


async def _wait(signal: str = "", seconds: float = 0.0, until: str = "") -> str:
    io = this_call().io
    now_s = await io.now()
    offer = read_offer(WAIT, {"signal": signal, "seconds": seconds, "until": until}, now_s)
    if offer is None:
        raise ToolException(_NOTHING)
    left_s = offer.until_s - now_s if offer.until_s else None
    if not signal:
        await io.sleep(left_s or 0.0)
        return "The time is over."
    try:
        return result_text(await io.wait_for(signal, timeout_s=left_s))
    except (NothingCame, ToolError) as error:
        raise ToolException(str(error)) from error


async def _ask(question: str, choices: Sequence[str] = ()) -> str:
    try:
        return result_text(await this_call().io.ask(question, choices=choices))
    except ToolError as error:
        raise ToolException(str(error)) from error
