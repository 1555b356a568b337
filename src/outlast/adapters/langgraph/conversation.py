"""The conversation in a graph's state, where a turn before was cut short: each call in it has one result."""

# LangGraph ships no marker that it is typed.
# pyright: reportMissingTypeStubs=false

from collections.abc import Iterator, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import StateSnapshot

from outlast.adapter import ToolResult
from outlast.adapters.history import NOT_KNOWN
from outlast.adapters.langgraph.tools import told


def sound(given: Any, stands: StateSnapshot) -> Any:
    """The input of a graph, with the results that its newest answer lacks before what is new.

    Args:
        given: left as it is unless it holds messages, as the state does.
        stands: where the graph was left; tasks of it that ended know some of the results.
    """
    new, old = _messages(given), _messages(stands.values)
    if new is None or not old:
        return given
    ended = {one.tool_call_id: one for task in stands.tasks for one in _results(task.result)}
    unknown = ToolResult("error", NOT_KNOWN)
    missing = [ended.get(id_) or told(name, id_, unknown) for name, id_ in _open(old)]
    return {**given, "messages": [*missing, *new]} if missing else given


def _messages(state: Any) -> Sequence[Any] | None:
    found = cast("dict[str, Any]", state).get("messages") if isinstance(state, dict) else None
    return cast("list[Any]", found) if isinstance(found, list) else None


def _results(written: Any) -> Iterator[ToolMessage]:
    """Results of calls in what a task wrote."""
    yield from (one for one in _messages(written) or () if isinstance(one, ToolMessage))


def _open(messages: Sequence[Any]) -> Sequence[tuple[str, str]]:
    """Name and id of each call at the end of a conversation that has no result."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = message.tool_calls
            return [(call["name"], str(call["id"])) for call in calls if call["id"] not in answered]
        elif isinstance(message, BaseMessage):
            break
    return ()
