"""Tools that run once, as a model has called them, whatever becomes of the node that runs them."""

# LangGraph ships no marker that it is typed, and both it and LangChain leave parameters of their own generics unknown.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from outlast.adapter import ToolAsk, ToolResult
from outlast.adapters.endings import said_by
from outlast.adapters.foreign import ForeignCall, Replay
from outlast.adapters.langgraph.running import Running, running
from outlast.errors import BadInput
from outlast.records.kinds import Policy
from outlast.tool import Tool, result_text

_serde = JsonPlusSerializer()


def durable_tool(tool: "BaseTool | Tool", replay: Replay | Policy = "never") -> BaseTool:
    """The same tool: in a turn it runs once as a model has called it, and its result is read from the log ever after.

    Outside a turn it runs as it always did.

    Args:
        tool: LangChain's, or one made by `outlast.tool`, which brings its policy and is one of the agent's tools too.
        replay: what recovery may do about a call that was cut off.
    """
    if isinstance(tool, Tool):
        made = StructuredTool(
            name=tool.name, description=tool.description, args_schema=dict(tool.schema), coroutine=_elsewhere
        )
        return _durable(made, None)
    return _durable(tool, replay)


def replay_of(tool: BaseTool) -> Replay | Policy | None:
    """The policy that a durable tool was given; None for one of the agent's own, which has its own.

    Raises:
        BadInput: it is not durable.
    """
    if not isinstance(tool, _Durable):
        raise BadInput(detail=f"The tool {tool.name!r} is not durable. Give what `durable_tool` made of it.")
    return tool.outlast_replay


class _Durable(BaseTool):
    """What a durable tool does otherwise."""

    outlast_replay: ClassVar[Replay | Policy | None] = None
    outlast_inner: ClassVar[BaseTool]

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        turn = running.get()
        if turn is None:
            return super().invoke(input, config, **kwargs)
        return turn.here(self._durably(turn, input, config, kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        turn = running.get()
        if turn is None:
            return await super().ainvoke(input, config, **kwargs)
        return await self._durably(turn, input, config, kwargs)

    async def _durably(
        self, turn: Running, called: Any, config: RunnableConfig | None, kwargs: dict[str, Any]
    ) -> Any:
        if not (isinstance(called, dict) and cast("dict[str, Any]", called).get("type") == "tool_call"):
            said = f"The tool {self.name!r} was not called by a model."
            raise BadInput(detail=f"{said} From a node, run one of the agent's tools: `node_io(job)`.")
        call = cast("dict[str, Any]", called)
        ask = ToolAsk(str(call["id"]), self.name, self._said(call["args"]))

        async def run(_: ForeignCall) -> ToolResult:
            try:
                return _written(await self.outlast_inner.ainvoke(call, _apart(config), **kwargs))
            except GraphBubbleUp as error:
                said = "A durable tool may not interrupt the graph: it has begun. Interrupt in a node before."
                return ToolResult("error", f"{said} ({type(error).__name__})")
            except Exception as error:  # noqa: BLE001 - raised below, the same in every attempt
                return ToolResult("error", said_by(error))

        result = await turn.tool(ask, run)
        if (
            result.status == "error" and self.outlast_replay is None
        ):  # one of the agent's own tells the model why
            return told(self.name, ask.harness_id, result)
        return _read(self.name, ask.harness_id, result)

    def _said(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the model said of the arguments: not what LangGraph put beside it, as its state and its store."""
        schema = self.tool_call_schema
        made: Any = schema if isinstance(schema, dict) else cast("Any", schema).model_json_schema()
        names: dict[str, Any] = made.get("properties", {})
        return {name: value for name, value in arguments.items() if name in names}


def _durable(tool: BaseTool, replay: Replay | Policy | None) -> BaseTool:
    """A copy that is all the tool is: what LangGraph looks for in a tool, such as what it wants injected, it finds."""
    kind = type(tool)
    facts = {"outlast_replay": replay, "outlast_inner": tool, "__module__": __name__}
    made = tool.model_copy()
    object.__setattr__(made, "__class__", type(f"Durable{kind.__name__}", (_Durable, kind), facts))
    return made


def _apart(config: RunnableConfig | None) -> RunnableConfig:
    """For a graph that a tool runs: it has no checkpoints, and runs again with its tool; its calls are in the log."""
    known = ensure_config(config)
    # Without checkpoints there are none to wait for after each step, which LangGraph does not see by itself.
    none = {"__pregel_checkpointer": None, "__pregel_durability": "async"}
    return {**known, "configurable": {**known.get("configurable", {}), **none}}


async def _elsewhere(**_: Any) -> Any:
    raise BadInput(detail="A tool of outlast's runs within a turn only.")


def _written(result: Any) -> ToolResult:
    """What a tool returned, as JSON: plain where it is a plain message."""
    if isinstance(result, ToolMessage):
        status = "ok" if result.status == "success" else "error"
        if result.artifact is None:
            return ToolResult(status, {"content": result.content})
    kind, data = _serde.dumps_typed(result)
    return ToolResult("ok", {"kind": kind, "data": data.hex(), "content": _preview(result)})


def _preview(result: Any) -> object:
    if isinstance(result, ToolMessage):
        return result.content
    return "a command to the graph" if isinstance(result, Command) else type(result).__name__


def _read(name: str, call_id: str, result: ToolResult) -> Any:
    """What the graph goes on with.

    Raises:
        ToolException: the tool had raised something.
    """
    value: Any = result.value
    known: dict[str, Any] = value if isinstance(value, dict) else {}
    if "data" in known and "kind" in known:
        return _serde.loads_typed((known["kind"], bytes.fromhex(known["data"])))
    if result.status == "error" and not known.keys() == {"content"}:
        raise ToolException(result_text(value))
    return told(name, call_id, result)


def told(name: str, call_id: str, result: ToolResult) -> ToolMessage:
    """How a call ended, as a model reads it."""
    value: Any = result.value
    known: dict[str, Any] = value if isinstance(value, dict) else {}
    written = known.keys() in ({"content"}, {"kind", "data", "content"})
    content = known["content"] if written else result_text(value)
    status = "success" if result.status == "ok" else "error"
    return ToolMessage(content=content, name=name, tool_call_id=call_id, status=status)
