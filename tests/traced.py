"""A collector that keeps the spans of each turn that it is sent, made as any other makes them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from outlast.telemetry import names
from outlast.telemetry.content import complete
from outlast.telemetry.reading import Story, read_story
from outlast.telemetry.spans import Span, spans_of
from outlast.testing.faults import MortalWorld
from outlast.tracing import Settled
from outlast.world import World


@dataclass
class Kept:
    """See `outlast.tracing.Collector`."""

    failures: list[str] = field(default_factory=list[str])
    mortal: MortalWorld | None = None
    words: bool = False
    stories: list[Story] = field(default_factory=list[Story])
    traces: list[list[Span]] = field(default_factory=list[list[Span]])
    """One for each time that a turn was sent."""

    async def collect(self, world: World, settled: Settled) -> str:
        if self.mortal is not None:
            self.mortal.check()
        if self.failures:
            return self.failures.pop(0)
        story = await read_story(world, settled)
        assert story is not None
        self.stories.append(story)
        self.traces.append(await complete(world, story, spans_of(story), words=self.words))
        return ""

    @property
    def spans(self) -> list[Span]:
        """Those of the one turn that was sent."""
        (trace,) = self.traces
        return trace


@dataclass
class Shut:
    """One that takes nothing until it is opened."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    came: int = 0

    async def collect(self, world: World, settled: Settled) -> str:
        self.came += 1
        await self.open.wait()
        return ""


def tree(spans: Sequence[Span]) -> list[str]:
    """The spans by name, each indented beneath its parent; those without one here begin a line."""
    known = {span.id for span in spans}

    def beneath(parent: int | None, depth: int) -> list[str]:
        lines: list[str] = []
        for span in spans:
            above = None if span.parent is None or span.parent.span not in known else span.parent.span
            if above == parent:
                error = f" !{span.error}" if span.error else ""
                lines += [f"{'  ' * depth}{span.name}{error}", *beneath(span.id, depth + 1)]
        return lines

    return beneath(None, 0)


def check(story: Story, spans: Sequence[Span]) -> None:
    """What holds of every trace."""
    ids = [span.id for span in spans]
    assert len(set(ids)) == len(ids), "two spans have one id"
    assert {span.trace for span in spans} == {story.ids.trace}
    seen: set[int] = set()
    for at, span in enumerate(spans):
        assert at == 0 or (span.parent is not None and span.parent.span in seen), f"{span.name} comes early"
        assert span.began_s <= span.ended_s
        assert spans[0].began_s <= span.began_s
        assert span.ended_s <= spans[0].ended_s
        seen.add(span.id)
    billed = [span.usage for span in spans if span.usage is not None]
    total = sum(one.cost_usd for one in billed)
    assert abs(total - story.bar.usage.cost_usd) < 1e-9
    assert sum(one.output_tokens for one in billed) == story.bar.usage.output_tokens
    told = {span.call for span in spans if span.call}
    made = {call.call for lane in story.bar.lanes for call in lane.calls if call.kind != "value"}
    assert told == made or story.forked is not None
    asked = sum(span.attributes.get(names.OPERATION) == "chat" for span in spans)
    assert asked >= sum(detail.intent.kind == "model" for detail in story.calls.values()) or story.forked
