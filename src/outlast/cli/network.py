"""What is said of a workspace's way out: which credentials were used, and what was not let out."""

from outlast.cli.text import short
from outlast.records import NetworkAsked
from outlast.records.events import Event


def event_line(event: Event) -> str:
    """An event of the kind `network.asked`."""
    passed = "refused" if event.status == "refused" else "used"
    return line_of(NetworkAsked(event.turn, passed, credential=event.name, why=event.text, **event.facts))


def line_of(asked: NetworkAsked) -> str:
    """What was asked of the way out, once or more often."""
    where = f"{asked.host}:{asked.port}" if asked.host else ""
    often = f" ({asked.count:,} times)" if asked.count > 1 else ""
    if asked.passed == "refused":
        return f"  ✗ network  {short(where or 'a request', 120)} was refused: {short(asked.why, 200)}{often}"
    about = f"{asked.method} {where}{asked.path}" if where else "otherwise"
    answer = f"   {asked.status or 'no answer'}" if where else ""
    return f"  » used     {short(asked.credential, 60)}   {short(about, 200)}{answer}{often}"
