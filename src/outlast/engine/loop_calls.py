"""The calls of a loop that are no model's and no tool's: waits, values, children; and the loop beginning again."""

from collections.abc import Callable
from typing import Any

from outlast.calls import MAIN, SpawnAsk, ToolResult, WaitAsk
from outlast.engine.children import Children
from outlast.engine.context import Context
from outlast.engine.index import CallIndex
from outlast.engine.loop_documents import LoopDocuments
from outlast.engine.told import Told
from outlast.engine.waits import Waits
from outlast.engine.walk import Walk
from outlast.errors import BadInput, TurnStopped
from outlast.gate import Point
from outlast.records import CallIntent, TurnContinued


class LoopCalls:
    """See `outlast.adapter.Calls` for what each method promises."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.index = CallIndex(context.turn)
        self._walk = Walk(context, self.index)
        self.waits = Waits(context, self.index, self._walk)
        self.documents = LoopDocuments(context, self._walk, self.waits)
        self._children = Children(context, self.index, self._walk, self.waits)
        self.told = Told(context)

    async def wait(
        self, ask: WaitAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = lambda _: None
    ) -> ToolResult:
        return await self.waits.wait(ask, lane, pausing)

    async def spawn(
        self, ask: SpawnAsk, *, lane: str = MAIN, pausing: Callable[[int], None] = lambda _: None
    ) -> ToolResult:
        return await self._children.spawn(ask, lane, pausing)

    async def value(self, name: str, make: Callable[[], object], *, lane: str = MAIN) -> Any:
        return await self.waits.value(name, make, lane)

    def ahead(self, lane: str = MAIN) -> CallIntent | None:
        state = self.index.ahead(lane)
        return None if state is None else state.intent

    def rewind(self, lane: str) -> None:
        self.index.rewind(lane)

    def pass_by(self, lane: str) -> None:
        self.index.pass_by(lane)

    @property
    def ending(self) -> bool:
        return (
            self._context.stopping is not None
            or self._context.closed
            or self._context.writer.lost is not None
        )

    async def walked(self) -> None:
        await self._walk.end()

    async def begun_with(self) -> Any:
        state = self._context.turn.begun_with
        return None if state is None else await self._context.value(state)

    async def begin_again(self, state: object) -> None:
        context, turn = self._context, self._context.turn
        await self._walk.end()
        await context.afford()
        packer = context.writer.packer()
        payload = packer.payload(state, what="the state that the loop goes on with")
        await context.gate.cross(Point.BEFORE_CONTINUE)
        if context.stopping is not None:
            raise TurnStopped(context.stopping)
        left = [f"{call.intent.call} ({call.intent.name})" for call in turn.open_calls()]
        if left:
            raise BadInput(
                detail=f"The loop cannot begin again while calls are open: {', '.join(left)}. Await them first."
            )
        record = TurnContinued(turn.turn, payload, len(turn.calls), context.clock.now())
        landed = context.append(record, packer=packer)
        # From here on it has, whoever is cancelled meanwhile.
        self.index.clear()
        self.told.clear()
        self.waits.clear()
        context.on_begin_again()
        await context.writer.durable(landed)
        await context.gate.cross(Point.AFTER_CONTINUE)
        await context.writer.snapshot()
