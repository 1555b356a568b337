"""What `outlast work` may be told of whom it serves: agents, tenants, limits."""

from collections.abc import Sequence

from outlast.errors import BadInput
from outlast.world import Limits


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The names in options that may be given several times and hold several names each, as `a,b`."""
    found = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(name for name in found if name))


def limits_of(texts: Sequence[str]) -> Limits:
    """What `--limit AGENT=N` and `--limit N` say.

    Raises:
        BadInput: one of them is neither.
    """
    agents: dict[str, int] = {}
    whole: int | None = None
    for text in texts:
        agent, equals, number = text.rpartition("=")
        if not (number.isascii() and number.isdigit()) or (equals and not agent):
            raise BadInput(
                detail=f"--limit {text} is neither AGENT=N nor N, with a whole number N. Example: --limit support=4"
            )
        if equals:
            agents[agent] = int(number)
        else:
            whole = int(number)
    return Limits(agents, whole)
