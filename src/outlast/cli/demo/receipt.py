"""What the demo proves, counted outside: at the model's door, in the shop's ledger, in the log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.fold import records_of
from outlast.records import CallIntent, CallOutcome, Mirrored, Usage
from outlast.testing.models import RequestRecord
from outlast.world import Commit


class ModelLine(msgspec.Struct):
    """One model call of the turn."""

    call: int
    upstream: int
    """Times it went to the provider."""
    finished: int
    """Times the provider finished the answer: exactly 1 is the promise."""
    tokens: int
    cost_usd: float


class ToolLine(msgspec.Struct):
    """One tool call of the turn."""

    call: int
    name: str
    policy: str
    status: str
    effects: int | None = None
    """Effects in the outside world, where the demo can count them."""


class KillLine(msgspec.Struct):
    """One SIGKILL."""

    while_: str
    worker: str
    taken_over_by: str = ""
    takeover_s: float = 0.0
    """Kill to the other worker's first commit."""
    recovery_s: float = 0.0
    """Kill to the next thing that happens in the turn."""
    finished_calls: int = 0
    """Calls that starting over would have repeated."""
    saved: Usage = Usage()


class WaitLine(msgspec.Struct):
    """One wait of the turn, and who held the session meanwhile."""

    signal: str
    looks: int = 0
    """How often the demo looked at the session while it waited."""
    free: int = 0
    """How often no worker held it."""
    lasted_s: float = 0.0


class Receipt(msgspec.Struct):
    """Everything at the end; `ok` only if every promise held."""

    ok: bool
    result: str
    model_calls: list[ModelLine]
    tools: list[ToolLine]
    kills: list[KillLine]
    waits: list[WaitLine]
    saved: dict[str, Any]
    cost_bytes: dict[str, int]
    broken: list[str]


def model_lines(
    commits: Sequence[Commit], session: str, requests: Sequence[RequestRecord]
) -> list[ModelLine]:
    """The turn's model calls with what the model server saw of each."""
    intents, outcomes = _calls(commits, session)
    models = [intent for intent in intents if intent.kind == "model"]
    lines: list[ModelLine] = []
    for step, intent in enumerate(models):
        seen = [record for record in requests if record.kind == "model" and record.step == step]
        outcome = outcomes.get(intent.call)
        usage = outcome.usage if outcome is not None and outcome.usage is not None else Usage()
        tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        finished = sum(record.outcome == "completed" for record in seen)
        lines.append(ModelLine(intent.call, len(seen), finished, tokens, usage.cost_usd))
    return lines


def tool_lines(commits: Sequence[Commit], session: str, ledger: Path) -> list[ToolLine]:
    """The turn's tool calls with their effects."""
    intents, outcomes = _calls(commits, session)
    charged = len(ledger.read_text(encoding="utf-8").splitlines()) if ledger.exists() else 0
    return [
        ToolLine(
            intent.call,
            intent.name,
            intent.policy,
            outcomes[intent.call].status if intent.call in outcomes else "open",
            charged if intent.name == "charge_card" else None,
        )
        for intent in intents
        if intent.kind == "tool"
    ]


def broken_promises(
    lines: Sequence[ModelLine] | None, tools: Sequence[ToolLine], kills: Sequence[KillLine]
) -> list[str]:
    """Every promise that did not hold, as a sentence.

    Args:
        lines: None where the provider cannot be asked what it saw.
    """
    broken = [] if lines is None else _broken_model_calls(lines, kills)
    for tool in tools:
        if tool.policy == "never" and tool.effects is not None and tool.effects != 1:
            broken.append(f"the never tool {tool.name} had {tool.effects} effects, not 1")
        if tool.status == "open":
            broken.append(f"tool call {tool.call} was left open")
    if len(tools) < 3:
        broken.append(f"the turn made {len(tools)} tool calls, not three")
    if len(kills) != 3:
        broken.append(f"{len(kills)} kills happened, not 3")
    return broken


def broken_waits(waits: Sequence[WaitLine], signal: str) -> list[str]:
    """What did not hold of the wait for `signal`, if the plot has one."""
    broken = [
        f"a worker held the session at {wait.looks - wait.free} of {wait.looks} looks while it waited"
        for wait in waits
        if wait.free != wait.looks
    ]
    if signal and [wait.signal for wait in waits if wait.looks] != [signal]:
        broken.append(f"the turn did not wait once for {signal}")
    return broken


def _broken_model_calls(lines: Sequence[ModelLine], kills: Sequence[KillLine]) -> list[str]:
    broken = [
        f"model call {line.call} was finished {line.finished} times by the provider, not once"
        for line in lines
        if line.finished != 1
    ]
    cut = sum(line.upstream - line.finished for line in lines)
    # A kill between two calls comes when its watcher has heard of the first one's end: the next may be on its way.
    cutting = sum(kill.while_ != "a never tool runs" for kill in kills)
    if cut > cutting:
        broken.append(f"{cut} unfinished requests went upstream, {cutting} can be explained by kills")
    if len(lines) < 4:
        broken.append(f"the turn made {len(lines)} model calls, not four")
    return broken


def cost_bytes(commits: Sequence[Commit], world_file: Path | None, session: str) -> dict[str, int]:
    """What the log takes up: bodies by part, and the whole file of the World where it is one of the demo's own."""
    parts = {"log": 0, "mirror": 0}
    for commit in commits:
        records = records_of(session, commit)
        mirrored = sum(len(msgspec.json.encode(record)) for record in records if isinstance(record, Mirrored))
        whole = sum(len(msgspec.json.encode(record)) for record in records) or 1
        share = round(len(commit.body) * mirrored / whole)
        parts["mirror"] += share
        parts["log"] += len(commit.body) - share
    if world_file is not None:
        files = [world_file, Path(f"{world_file}-wal")]
        parts["world_file"] = sum(file.stat().st_size for file in files if file.exists())
    return parts


def _calls(commits: Sequence[Commit], session: str) -> tuple[list[CallIntent], dict[int, CallOutcome]]:
    intents: list[CallIntent] = []
    outcomes: dict[int, CallOutcome] = {}
    for commit in commits:
        for record in records_of(session, commit):
            if isinstance(record, CallIntent):
                intents.append(record)
            elif isinstance(record, CallOutcome):
                outcomes[record.call] = record
    return intents, outcomes


def receipt_text(receipt: Receipt) -> str:
    """The receipt for people."""
    rows = [
        "",
        "receipt",
        *_model_rows(receipt.model_calls),
        *_tool_rows(receipt.tools),
        *_kill_rows(receipt.kills),
        *_wait_rows(receipt.waits),
    ]
    saved, cost = receipt.saved, receipt.cost_bytes
    kept = f"{saved['calls']} calls, {saved['tokens']:,} tokens, ${saved['usd']:.4f}"
    paid = f"{cost['log']:,} bytes of log, {cost['mirror']:,} of mirror"
    paid += f"; {cost['world_file']:,} on disk" if "world_file" in cost else ""
    rows += [f"  saved against starting over at each kill: {kept}", f"  paid for it: {paid}"]
    rows += [f"  BROKEN: {text}" for text in receipt.broken]
    rows.append("  every promise held" if receipt.ok else "  a promise broke")
    return "\n".join(rows)


def _model_rows(lines: Sequence[ModelLine]) -> list[str]:
    return ["  model calls      upstream  finished     tokens        cost"] + [
        f"    call {one.call:<10} {one.upstream:>8}  {one.finished:>8} {one.tokens:>10,}  ${one.cost_usd:>9.5f}"
        for one in lines
    ]


def _tool_rows(lines: Sequence[ToolLine]) -> list[str]:
    return ["  tools                        policy   outcome     effects"] + [
        f"    call {one.call:<3} {one.name:20} {one.policy:8} {one.status:10} "
        f"{'' if one.effects is None else one.effects:>8}"
        for one in lines
    ]


def _kill_rows(lines: Sequence[KillLine]) -> list[str]:
    return ["  kills                                        taken over   going on   calls kept"] + [
        f"    while {one.while_:34} {one.takeover_s * 1000:>8.0f} ms {one.recovery_s:>8.2f} s {one.finished_calls:>9}"
        for one in lines
    ]


def _wait_rows(lines: Sequence[WaitLine]) -> list[str]:
    return [
        f"  waited {one.lasted_s:.1f} s for the signal {one.signal}: at {one.free} of {one.looks} looks no worker held "
        "the session"
        for one in lines
    ]
