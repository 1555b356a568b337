"""What a long conversation costs to keep: 200 model calls, each request carrying the whole of it.

Every call adds 2 KB of source text: 1 KB that the harness says (a tool's result) and 1 KB that the model answers. Each
request holds all messages so far, as every harness sends it; kept must be the new text only. Weighed as in `stored`.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from benchmarks.frame import Bench, Row, median, spread
from benchmarks.texts import random_text, source_text
from benchmarks.weighing import growth
from outlast.adapter import MAIN, Agent, Attempt, ModelAsk, Resolved, Send, TurnResult
from outlast.codec import canonical
from outlast.errors import TurnStopped
from outlast.ids import digest
from outlast.records import Usage
from outlast.recovery import Abilities
from outlast.tool import Tool

CALLS = 200
SAID = 1024
LIMIT_MB = 0.6


class Talk:
    """A harness that talks: every request is the conversation so far."""

    name = "talk"
    abilities = Abilities("all")

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def versions(self) -> Mapping[str, str]:
        return {"talk": "1"}

    def settings(self) -> Mapping[str, Any]:
        return {}

    def check(self) -> Sequence[str]:
        return ()

    def resolve(self, name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> Resolved:
        return Resolved(name, "worker", "safe")

    async def advance(self, attempt: Attempt) -> TurnResult:
        frame = {"model": "bench", "system": "You are measured.", "max_tokens": 1024}
        messages: list[Mapping[str, Any]] = []
        for said, answered in zip(self._texts[::2], self._texts[1::2], strict=True):
            messages.append({"role": "user", "content": [{"type": "text", "text": said}]})
            match = digest(canonical(messages))
            opening = await attempt.calls.open_model(ModelAsk(MAIN, "bench", match, frame, messages))
            if not isinstance(opening, Send):
                raise TurnStopped("only fresh turns are measured")
            content = [{"type": "text", "text": answered}]
            answer = {"role": "assistant", "content": content, "stop_reason": "end_turn"}
            await attempt.calls.settle_model(opening.call, answer, (), Usage(1000, 300))
            attempt.calls.delivered([opening.call])
            messages.append({"role": "assistant", "content": content})
        return TurnResult("done", len(messages))


async def conversation(bench: Bench) -> Sequence[Row]:
    """At most 0.6 MB for source text."""
    return [
        await _weigh(bench, "source text", list(islice(source_text(SAID), 2 * CALLS))),
        await _weigh(bench, "incompressible", list(islice(random_text(SAID), 2 * CALLS))),
    ]


async def _weigh(bench: Bench, name: str, texts: Sequence[str]) -> Row:
    sizes: list[float] = []
    for repeat in range(3):
        grown = await growth(bench, f"{name[:3]}{repeat}", Agent("bench", Talk(texts)))
        sizes.append(grown / 1e6)
    new_mb = sum(len(msgspec.json.encode(text)) for text in texts) / 1e6
    size, compressible = median(sizes), name == "source text"
    return Row(
        name=f"{CALLS} model calls, 2 KB new text each, {name}",
        world=bench.world,
        value=size,
        unit="MB",
        floor=new_mb,
        ratio=size / new_mb,
        target=f"<= {LIMIT_MB} MB" if compressible else "",
        met=size <= LIMIT_MB if compressible else None,
        spread=spread(sizes, 3),
    )
