"""How a session begins, as Worlds hand it on within themselves, and what tells one beginning from another."""

from collections.abc import Mapping
from dataclasses import dataclass

from outlast.errors import SessionExists
from outlast.world.commit import Commit


@dataclass(frozen=True, slots=True)
class Opening:
    """A session to be created (`Log.create`)."""

    session: str
    first: Commit
    agent: str
    placement: str
    labels: Mapping[str, str]
    priority: int = 0

    def check_same(self, digest: str, agent: str, placement: str, labels: Mapping[str, str]) -> None:
        """Return if the session that stands began like this, by what stands of it.

        Raises:
            SessionExists
        """
        differences = {
            "another first commit": digest != self.first.header.digest,
            "another agent": agent != self.agent,
            "another placement": placement != self.placement,
            "another labels": dict(labels) != dict(self.labels),
        }
        _refuse(self.session, differences)


@dataclass(frozen=True, slots=True)
class Fork:
    """A session to be made with the past of another (`Log.fork`)."""

    source: str
    session: str
    first: Commit
    placement: str | None
    """None: the source's."""
    labels: Mapping[str, str]
    priority: int

    @property
    def at(self) -> int:
        """Number of the last commit that it shares."""
        return self.first.header.seq - 1

    def check_same(
        self, *, itself: bool, digest: str, same_past: bool, placement: str, labels: Mapping[str, str]
    ) -> None:
        """Return if the session that stands began like this.

        Args:
            itself: it is the source.
            digest: of its commit behind the shared ones; empty if there is none.
            same_past: as far as the source still stands.
            placement: its own.
            labels: its own.

        Raises:
            SessionExists
        """
        differences = {
            "it is the source": itself,
            "another first commit": digest != self.first.header.digest,
            "another past": not same_past,
            "another placement": self.placement not in {None, placement},
            "another labels": dict(labels) != dict(self.labels),
        }
        _refuse(self.session, differences)


def _refuse(session: str, differences: Mapping[str, bool]) -> None:
    for difference, holds in differences.items():
        if holds:
            raise SessionExists(session=session, difference=difference)
