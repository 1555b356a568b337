"""What a log saved against what it takes up, in words."""

from outlast.cli.text import dollars
from outlast.records import Usage
from outlast.tally import tokens
from outlast.timeline import LogCost, Saved, TurnBar


def span(seconds: float) -> str:
    """How long something took: `4.2 s`, `3 min`, `2.6 h`, `2 d`."""
    seconds = max(0.0, seconds)
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 129_600 else f"{seconds / 86_400:.0f} d"


def saved_text(saved: Saved) -> str:
    """`12 model calls (41,203 tokens, $0.4200), 8 tool calls and 3 min of work`; empty where it is nothing."""
    usage = saved.usage
    said: list[str] = []
    if saved.model_calls:
        said.append(f"{_count(saved.model_calls, 'model call')} ({_spent(usage)})")
    if saved.tool_calls:
        said.append(_count(saved.tool_calls, "tool call"))
    return f"{', '.join(said)} and {span(saved.busy_s)} of work" if said else ""


def sentence(turn: TurnBar) -> str:
    """What the log of a turn has saved, or would."""
    saved = turn.saved
    if saved.takeovers and saved_text(saved):
        times = "once" if saved.takeovers == 1 else f"{saved.takeovers:,} times"
        return f"Other attempts went on with it {times}: the log saved {saved_text(saved)}."
    if saved.takeovers:
        return "Another attempt went on with it before anything was finished: there was nothing to save."
    if turn.status != "open":
        return "One attempt was enough: nothing had to be read back."
    now = saved_text(turn.finished)
    return f"If its worker is lost now, the log saves {now}." if now else "Nothing of it is finished yet."


def log_text(log: LogCost) -> str:
    """`118 commits, 402 records, 96,412 bytes`."""
    return f"{_count(log.commits, 'commit')}, {_count(log.records, 'record')}, {log.bytes:,} bytes"


def _spent(usage: Usage) -> str:
    return f"{tokens(usage):,} tokens, {dollars(usage.cost_usd)}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
