"""What descriptions of workspaces have in common."""

from collections.abc import Mapping


class Isolated:
    """A workspace that sees nothing of a host, and is the same from every worker that reaches the World."""

    __slots__ = ()

    @property
    def placement(self) -> str:
        return "any"

    @property
    def isolated(self) -> bool:
        return True


def kept_in(store: str) -> Mapping[str, str]:
    """What a reference says of where the files are kept; of the World nothing."""
    return {"store": store} if store else {}
